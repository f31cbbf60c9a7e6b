package environment

import "encoding/json"

// Schema returns the JSON schema of the file, for editors, with a final line break. The
// schema allows a file if [Parse] accepts it without a warning.
func Schema() []byte {
	s := topLevel.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "environment.json"
	s["allowComments"], s["allowTrailingCommas"] = true, true // extensions of VS Code
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, slices and strings always encode
	}
	return append(out, '\n')
}
