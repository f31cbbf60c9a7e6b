// Package images holds what the default base image is made of, for the program
// that makes it to carry along.
package images

import _ "embed"

// Suite is the Debian release of the base image.
const Suite = "bookworm"

// Packages are those that the base image has beside Debian's minimal variant,
// one on a line, with remarks.
//
//go:embed packages.txt
var Packages string

// Desktop are those that give its machines a desktop besides.
//
//go:embed desktop.txt
var Desktop string

// Docker are those with which its machines can run Docker.
//
//go:embed docker.txt
var Docker string

// Setup is the script that completes the tree.
//
//go:embed setup.sh
var Setup []byte
