package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/control/machine/container"
	"aloft/internal/control/store/postgres"
	"aloft/internal/fault"
)

// StoreAddress returns the store's address from the flag, the environment
// variable or the configuration, in this order. The flag must not contain a
// password, because every user of the host can see it.
func StoreAddress(flag, variable, configured string) (string, error) {
	before, _, at := strings.Cut(flag, "@")
	_, user, _ := strings.Cut(before, "://")
	if strings.Contains(flag, "password") || at && strings.Contains(user, ":") {
		return "", UsageError{errors.New("--store contains a password, which every user of this host could read: set the address in ALOFT_STORE or the configuration's store, or the password in PGPASSWORD or ~/.pgpass")}
	}
	return cmp.Or(flag, variable, configured), nil
}

// ProbeStore checks the database at address.
func ProbeStore(ctx context.Context, address string) []container.Check {
	if address == "" {
		return nil
	}
	c := container.Check{Name: "store", Required: true}
	detail, err := postgres.Probe(ctx, address)
	if c.OK, c.Detail = err == nil, detail; err != nil {
		c.Detail, c.Fix = fmt.Sprint(err), cmp.Or(fault.Of(err).Advice, "start PostgreSQL, or fix ALOFT_STORE or the configuration's store")
	}
	return []container.Check{c}
}
