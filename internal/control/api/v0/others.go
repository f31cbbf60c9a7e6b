package v0

import (
	"net/url"
	"path"
	"strings"
	"time"
)

// machineFolder is the folder in the machine that /v1 calls artifacts/.
const machineFolder = "/opt/cursor/"

func artifacts(c Call) (any, error) {
	var in struct {
		Items []struct {
			Path      string
			SizeBytes int64
			UpdatedAt time.Time
		}
	}
	if err := c.V1("GET", agentPath(c.Request().PathValue("id"))+"/artifacts", nil, &in); err != nil {
		return nil, err
	}
	out := ListArtifacts{Artifacts: []Artifact{}}
	for _, f := range in.Items {
		out.Artifacts = append(out.Artifacts, Artifact{AbsolutePath: machineFolder + f.Path, SizeBytes: f.SizeBytes, UpdatedAt: f.UpdatedAt})
	}
	return out, nil
}

func download(c Call) (any, error) {
	r := c.Request()
	query := url.Values{"path": {r.URL.Query().Get("path")}}
	var out Download
	return &out, c.V1("GET", agentPath(r.PathValue("id"))+"/artifacts/download?"+query.Encode(), nil, &out)
}

func me(c Call) (any, error) {
	var out Me
	return &out, c.V1("GET", "/v1/me", nil, &out)
}

func models(c Call) (any, error) {
	var in struct{ Items []struct{ ID string } }
	if err := c.V1("GET", "/v1/models", nil, &in); err != nil {
		return nil, err
	}
	out := ListModels{Models: []string{}}
	for _, m := range in.Items {
		out.Models = append(out.Models, m.ID)
	}
	return out, nil
}

func repositories(c Call) (any, error) {
	var in struct{ Items []struct{ URL string } }
	if err := c.V1("GET", "/v1/repositories", nil, &in); err != nil {
		return nil, err
	}
	out := ListRepositories{Repositories: []Repository{}}
	for _, r := range in.Items {
		owner, name := split(r.URL)
		out.Repositories = append(out.Repositories, Repository{Owner: owner, Name: name, Repository: r.URL})
	}
	return out, nil
}

// split splits a repository's URL into owner and name. The owner is all of the
// path but its last element: it may be nested groups, or empty.
func split(raw string) (owner, name string) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", raw
	}
	at := strings.Trim(u.Path, "/")
	owner = strings.Trim(path.Dir(at), "./")
	return owner, strings.TrimSuffix(path.Base(at), ".git")
}
