package main

import (
	"embed"
	"io/fs"
)

// embedded holds the files that make build adds: the machine binaries, the OCI runtime,
// and the dashboard in the folder web. It is empty if the program was built without
// make.
//
//go:embed embedded
var embedded embed.FS

// binaries returns the embedded folder as a file system.
func binaries() fs.FS {
	sub, err := fs.Sub(embedded, "embedded")
	if err != nil {
		panic(err) // cannot happen: the go:embed directive names the folder
	}
	return sub
}
