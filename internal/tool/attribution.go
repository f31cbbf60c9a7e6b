package tool

// Attributed is a range of lines of a file that one commit last changed.
type Attributed struct {
	Path    string `json:"path"` // relative to the workspace
	First   int    `json:"startLine"`
	Last    int    `json:"endLine"`
	AgentID string `json:"agentId,omitempty"` // empty if no run is known to have made the commit
	RunID   string `json:"runId,omitempty"`
	Commit  string `json:"commitHash"` // the first 12 digits
}
