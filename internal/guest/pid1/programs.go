package pid1

import (
	"slices"
	"strings"

	"aloft/internal/guest/checkout"
)

// checkPrograms returns a failure if the machine lacks a program that every agent needs:
// bash runs its commands, and git makes its checkout. Without the check, the machine
// would fail later with an error that names no cause.
func (b *boot) checkPrograms() error {
	needed := []string{"bash"}
	if b.req.GetCheckout().GetRepoUrl() != "" {
		needed = append(needed, "git")
	}
	missing := slices.DeleteFunc(needed, func(name string) bool { return lookPath(name, b.d.ownEnviron()) != "" })
	if len(missing) == 0 {
		return nil
	}
	return &checkout.Failure{Code: checkout.CodeNoPrograms, Detail: strings.Join(missing, ", ")}
}
