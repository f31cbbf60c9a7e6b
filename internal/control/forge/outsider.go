package forge

import (
	"context"
	"fmt"
	"strings"

	"aloft/internal/fault"
)

// Outsider returns the reason to ignore the user's comments, such as that the
// user may not write to the repository; "" if there is none.
func Outsider(ctx context.Context, f Forge, r Repo, user string) (string, error) {
	if isBot(user) {
		return fmt.Sprintf("%s is a bot", user), nil
	}
	a, ok := f.(Access)
	if !ok {
		return fmt.Sprintf("%s does not report who may write to %s", r.Host, r.Path), nil
	}
	may, err := a.MayWrite(ctx, r, user)
	switch {
	case fault.Is(err, fault.KindDenied):
		return fmt.Sprintf("the server's token may not see whether %s may write to %s", user, r.Path), nil
	case err != nil:
		return "", err
	case !may:
		return fmt.Sprintf("%s may not write to %s", user, r.Path), nil
	}
	return "", nil
}

// isBot reports whether the login belongs to a bot: a GitHub App, or a GitLab
// project or group access token.
func isBot(user string) bool {
	return strings.HasSuffix(user, "[bot]") || (strings.HasPrefix(user, "project_") || strings.HasPrefix(user, "group_")) && strings.Contains(user, "_bot")
}
