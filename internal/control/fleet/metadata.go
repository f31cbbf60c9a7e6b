package fleet

import (
	"strconv"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/model"
)

// metadata returns the data about an agent that its processes can read on the
// metadata socket, by path. Unknown values are left out.
func metadata(s *agent.State, branches []string) map[string]string {
	values := map[string]string{
		"agent/id":        s.Agent.ID,
		"agent/name":      s.Agent.Name,
		"agent/source":    "api",
		"agent/runtime":   "cloud",
		"owner/user-id":   strconv.FormatInt(s.Agent.UserID, 10),
		"turn/id":         s.Run.ID,
		"turn/started-at": s.Run.CreatedAt.UTC().Format(time.RFC3339),
	}
	if s.Agent.Model != "" {
		values["turn/model"] = model.ParseRef(s.Agent.Model).ID
	}
	var urls []string
	for _, r := range s.Agent.Repos {
		urls = append(urls, r.URL)
	}
	if len(urls) > 0 {
		values["workspace/repo-url"] = urls[0]
		values["workspace/repo-urls"] = strings.Join(urls, "\n")
		values["workspace/branch-name"] = branches[0]
	}
	return values
}
