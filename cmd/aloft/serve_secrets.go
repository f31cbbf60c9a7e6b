package main

import (
	"context"
	"fmt"
	"path/filepath"

	_ "gocloud.dev/secrets/awskms" // the keepers that secrets.keeper may name
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
			return nil, usageError{fmt.Errorf("secrets: %w", err)}
		}
		config.Keepers = append(config.Keepers, keeper)
	}
	if c.AWS.Region != "" {
		roles, err := awsrole.New(ctx, awsrole.Config{Region: c.AWS.Region, Endpoint: c.AWS.Endpoint, Profile: c.AWS.Profile})
		if err != nil {
			return nil, usageError{fmt.Errorf("secrets.aws: %w", err)}
		}
		config.Roles = roles
	}
	return safe.New(config)
}
