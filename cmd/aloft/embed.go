package main

import (
	"embed"
	"io/fs"
)

// embedded is what make build puts there: the binaries of a machine, the OCI
// runtime, and in the folder web the dashboard. A build without make carries none.
//
//go:embed embedded
var embedded embed.FS

// binaries is the embedded folder itself.
func binaries() fs.FS {
	sub, err := fs.Sub(embedded, "embedded")
	if err != nil {
		panic(err) // the folder is named in the line above
	}
	return sub
}
