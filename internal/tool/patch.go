package tool

// Patch holds another agent's changes to one repository. The payload of a call of
// ApplyAgentDiff is a JSON array of patches.
type Patch struct {
	Folder string   `json:"folder"` // folder of the working tree, relative to the workspace
	Text   []byte   `json:"text"`   // as git diff --binary --full-index prints it
	Files  []string `json:"files"`  // the changed files, relative to the working tree
}
