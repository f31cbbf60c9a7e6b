package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// bundlePath is the path of the CA bundle in every machine.
const bundlePath = "etc/ssl/certs/ca-certificates.crt"

// bundlePaths are the paths of CA bundles in distributions.
var bundlePaths = []string{
	bundlePath,                        // Debian, Ubuntu, Alpine, Arch
	"etc/pki/tls/certs/ca-bundle.crt", // Fedora, RHEL
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // CentOS, RHEL
	"etc/ssl/ca-bundle.pem",                            // openSUSE
	"etc/ssl/cert.pem",                                 // Alpine
}

const maxBundle = 16 << 20

// hostBundle reads the host's CA bundle, which may contain a company's own CA.
// It returns nil if the host has none.
func hostBundle() ([]byte, error) {
	for _, p := range bundlePaths {
		f, err := os.Open("/" + p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("CA bundle: %w", err)
		}
		data, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("CA bundle: %w", err)
		}
		if len(data) > maxBundle {
			return nil, fmt.Errorf("CA bundle: /%s is larger than %d MiB", p, maxBundle>>20)
		}
		return data, nil
	}
	return nil, nil
}
