package environment

import "encoding/json"

// Schema is the JSON schema of the file, for editors: JSON with a final line
// break. It allows what [Parse] understands without a warning.
func Schema() []byte {
	s := topLevel.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "environment.json"
	s["allowComments"], s["allowTrailingCommas"] = true, true // as VS Code has it
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, slices and strings have a JSON
	}
	return append(out, '\n')
}
