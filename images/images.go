// Package images embeds the files from which the default base image is made, for the
// program that makes the image.
package images

import _ "embed"

// Suite is the Debian release of the base image.
const Suite = "bookworm"

// Packages lists the packages that the base image has in addition to Debian's minimal
// variant, one per line, with remarks.
//
//go:embed packages.txt
var Packages string

// Desktop lists the additional packages of the base image with a desktop.
//
//go:embed desktop.txt
var Desktop string

// Docker lists the additional packages with which machines can run Docker.
//
//go:embed docker.txt
var Docker string

// Setup is the script that completes the image's file tree.
//
//go:embed setup.sh
var Setup []byte
