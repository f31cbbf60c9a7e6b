package forge

import "context"

// FetchPull sends a request whose response is a pull request in the host's form.
func FetchPull[T any](ctx context.Context, w *Wire, a Ask, convert func(T, Repo) PullRequest) (PullRequest, error) {
	v, err := Fetch[T](ctx, w, a)
	if err != nil {
		return PullRequest{}, err
	}
	return convert(v, a.Repo), nil
}

// FindPulls requests a list of pull requests page by page, and returns the
// first [MaxFound] whose head is in the repository itself. It filters the list,
// because forks may have a branch of the same name.
func FindPulls[T any](ctx context.Context, w *Wire, a Ask, head string, convert func(T, Repo) PullRequest) ([]PullRequest, error) {
	var all []PullRequest
	err := Pages(ctx, w, a, func(page []T) bool {
		for _, v := range page {
			if p := convert(v, a.Repo); p.Head == head && p.HeadRepo == a.Repo {
				all = append(all, p)
			}
		}
		return len(all) >= MaxFound
	})
	return all[:min(len(all), MaxFound)], err
}

// FetchDefaultBranch sends a request whose response is a repository.
func FetchDefaultBranch(ctx context.Context, w *Wire, a Ask) (string, error) {
	v, err := Fetch[struct {
		Name string `json:"default_branch"`
	}](ctx, w, a)
	return Line(v.Name, 255), err
}

// Texts returns the changed title and body as fields of a request. title converts
// the title to the host's form. The body is cut to most bytes, and becomes the field
// that body names.
func (c Change) Texts(title func(string) string, body string, most int) map[string]any {
	in := map[string]any{}
	if c.Title != nil {
		in["title"] = title(*c.Title)
	}
	if c.Body != nil {
		in[body] = Inert(*c.Body, most)
	}
	return in
}

// HeadIn returns the repository of a pull request's head. head and base are the
// repository paths of the pull request on the host, which differ from r's path
// if r was renamed.
func HeadIn(r Repo, head, base string) Repo {
	if head == base {
		return r
	}
	return Repo{Host: r.Host, Path: Line(head, 255)}
}
