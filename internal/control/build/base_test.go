package build

import "testing"

// A repository must not select an image that consists of the server's own
// files.
func TestImagesOfTheHost(t *testing.T) {
	for image, want := range map[string]bool{
		"host": true, "host@debian-12": true, "rootfs:/": true, "oci:/srv/x": true, "local:base": true,
		"debian:12": false, "host/app": false, "ghcr.io/host@sha256:00": false,
	} {
		if ofTheHost(image) != want {
			t.Errorf("%s: %v, want %v", image, !want, want)
		}
	}
}
