package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "gocloud.dev/secrets/awskms" // key services for secrets.keeper
	_ "gocloud.dev/secrets/azurekeyvault"
	_ "gocloud.dev/secrets/gcpkms"
	_ "gocloud.dev/secrets/hashivault"

	"aloft/internal/control/safe"
	"aloft/internal/control/safe/awsrole"
	"aloft/internal/control/store"
)

// newSafe opens the safe that the configuration describes.
func newSafe(ctx context.Context, data string, c secretsConfig, secrets store.Secrets) (*safe.Safe, error) {
	config := safe.Config{Store: secrets}
	for _, url := range append([]string{c.Keeper}, c.Previous...) {
		keeper, err := safe.OpenKeeper(ctx, url, filepath.Join(data, "secrets.key"))
		if err != nil {
			return nil, UsageError{fmt.Errorf("secrets: %w", err)}
		}
		config.Keepers = append(config.Keepers, keeper)
	}
	if c.AWS.Region != "" {
		roles, err := awsrole.New(ctx, awsrole.Config{Region: c.AWS.Region, Endpoint: c.AWS.Endpoint, Profile: c.AWS.Profile})
		if err != nil {
			return nil, UsageError{fmt.Errorf("secrets.aws: %w", err)}
		}
		config.Roles = roles
	}
	return safe.New(config)
}

// fromEnv sets a secret from the environment variable that the configuration names.
func fromEnv(secret *string, name, at string, getenv func(string) string) error {
	if name == "" {
		return nil
	}
	if *secret != "" {
		return fmt.Errorf("%s and %s_env cannot both be set", at, at)
	}
	if *secret = getenv(name); *secret == "" {
		err := fmt.Errorf("%s_env: the variable %s is not set", at, name)
		if getenv("SUDO_USER") != "" {
			err = fmt.Errorf("%w: to pass your shell's variables through sudo, use `sudo -E` or --preserve-env=%s", err, name)
		}
		return err
	}
	return nil
}

// fromFile sets a secret from the file that the configuration names.
func fromFile(secret *string, dir, name, at string) error {
	if name == "" {
		return nil
	}
	if *secret != "" {
		return fmt.Errorf("%s and %s_file cannot both be set", at, at)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%s_file: %w", at, err)
	}
	if *secret = strings.TrimSpace(string(text)); *secret == "" {
		return fmt.Errorf("%s_file: %s is empty", at, name)
	}
	return nil
}
