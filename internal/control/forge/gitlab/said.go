package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"aloft/internal/control/forge"
)

type status struct {
	ID                        int64
	Name, Status, Description string
	TargetURL                 string     `json:"target_url"`
	AllowFailure              bool       `json:"allow_failure"`
	FinishedAt                *time.Time `json:"finished_at"`
}

func (v status) state() forge.CheckState {
	switch v.Status {
	case "success":
		return forge.Success
	case "skipped":
		return forge.Neutral
	case "failed", "canceled", "canceling", "manual":
		switch {
		case v.AllowFailure: // an optional manual job, too
			return forge.Neutral
		case v.Status != "manual":
			return forge.Failure
		}
	}
	return forge.Pending // created, waiting_for_resource, preparing, pending, running or scheduled
}

// Checks implements [forge.Forge]. It returns jobs of pipelines and external
// statuses.
func (f *Forge) Checks(ctx context.Context, r forge.Repo, commit string) ([]forge.Check, error) {
	latest := map[string]status{}
	err := forge.AllPages(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, "repository", "commits", commit, "statuses"), Query: url.Values{"per_page": {perPage}}},
		func(page []status) {
			for _, v := range page {
				// Pipelines of a branch and of its merge request have jobs with the
				// same names.
				if v.ID >= latest[v.Name].ID {
					latest[v.Name] = v
				}
			}
		})
	if err != nil {
		return nil, err
	}
	var all []forge.Check
	for _, v := range latest {
		c := forge.Check{Name: forge.Line(v.Name, 200), State: v.state(), Summary: forge.Line(v.Description, 500), URL: forge.Web(v.TargetURL)}
		if v.FinishedAt != nil {
			c.EndedAt, c.LogID = *v.FinishedAt, strconv.FormatInt(v.ID, 10) // a job and its status have the same id
		}
		all = append(all, c)
	}
	return forge.ByName(all), nil
}

type note struct {
	ID                   int64
	Author               user
	Body                 string
	System               bool
	CreatedAt            time.Time `json:"created_at"`
	Position             *position
	Resolvable, Resolved bool
}

// position is the place of a note in the diff.
type position struct {
	HeadSHA   string `json:"head_sha"`
	OldPath   string `json:"old_path"`
	NewPath   string `json:"new_path"`
	OldLine   int    `json:"old_line"`
	NewLine   int    `json:"new_line"`
	LineRange struct {
		Start struct {
			NewLine int `json:"new_line"`
		}
	} `json:"line_range"`
}

func (v note) convert(pull string) forge.Comment {
	c := forge.Comment{ID: strconv.FormatInt(v.ID, 10), Author: forge.Line(v.Author.Username, 100), Body: forge.Cut(forge.AsWritten(v.Body), forge.MaxBody), CreatedAt: v.CreatedAt}
	if pull != "" {
		c.URL = fmt.Sprintf("%s#note_%d", pull, v.ID)
	}
	if v.Position != nil {
		c.Path, c.Line = forge.Line(v.Position.NewPath, 1000), v.Position.NewLine
	}
	return c
}

// notes returns the newest notes of a list, with links to them on the page at url.
func (f *Forge) notes(ctx context.Context, a forge.Ask, url string) ([]forge.Comment, error) {
	var all []forge.Comment
	a.Query = newestFirst
	err := forge.Pages(ctx, f.wire, a, func(page []note) bool {
		for _, v := range page {
			if !v.System {
				all = append(all, v.convert(url))
			}
		}
		return len(all) >= forge.MaxComments
	})
	slices.Reverse(all) // for the stable sort: comments of the same time keep their order
	return forge.Newest(all), err
}

var newestFirst = url.Values{"sort": {"desc"}, "order_by": {"created_at"}, "per_page": {perPage}}

// addNote adds a note, and returns it with a link to it on the page at url.
func (f *Forge) addNote(ctx context.Context, a forge.Ask, url, body string) (forge.Comment, error) {
	a.Method, a.In = http.MethodPost, map[string]any{"body": forge.Inert(body, maxBody)}
	v, err := forge.Fetch[note](ctx, f.wire, a)
	if err != nil {
		return forge.Comment{}, err
	}
	return v.convert(url), nil
}

// Comments implements [forge.Discussion].
func (f *Forge) Comments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	p, err := f.Get(ctx, r, number)
	if err != nil {
		return nil, err
	}
	return f.notes(ctx, mergeRequestAsk(r, number, "notes"), p.URL)
}

// Comment implements [forge.Discussion].
func (f *Forge) Comment(ctx context.Context, r forge.Repo, number int, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	p, err := f.Get(ctx, r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	return f.addNote(ctx, mergeRequestAsk(r, number, "notes"), p.URL, body)
}
