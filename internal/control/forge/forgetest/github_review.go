package forgetest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"aloft/internal/control/forge"
)

// appOf returns the App that reports a check.
func appOf(c forge.Check) string {
	if strings.HasPrefix(c.Name, "app") {
		return "some-app"
	}
	return "github-actions"
}

// gitHubThread returns the node id of a thread.
func gitHubThread(number int) func(id string) string {
	return func(id string) string { return fmt.Sprintf("PRRT_kwDO%d_%s", number, id) }
}

func gitHubReviews(s *Server) {
	s.route("GET /repos/{owner}/{repo}/pulls/{number}/comments", "sort direction since", func(c *call) (any, error) {
		threads, err := s.Fake.Threads(c.Context(), c.repo, c.number)
		all := []any{}
		for _, t := range threads {
			for _, v := range t.Comments {
				one := commentLikeGitHub(v)
				one["path"], one["line"] = v.Path, v.Line
				all = append(all, one)
			}
		}
		return all, err
	})
	s.route("GET /repos/{owner}/{repo}/pulls/{number}/reviews", "", func(c *call) (any, error) {
		found, err := s.Fake.Reviews(c.Context(), c.repo, c.number)
		ada := map[string]any{"login": "ada"}
		all := []any{
			map[string]any{"id": 9, "user": ada, "body": "", "state": "COMMENTED", "submitted_at": "2026-01-02T03:04:05Z", "commit_id": c.pull().HeadCommit},
			map[string]any{"id": 10, "user": ada, "body": "", "state": "PENDING", "commit_id": c.pull().HeadCommit},
		}
		for _, v := range found {
			all = append(all, map[string]any{"id": atoi(v.ID), "user": map[string]any{"login": v.Author}, "body": v.Body, "state": strings.ToUpper(string(v.Verdict)),
				"commit_id": v.Commit, "submitted_at": v.SubmittedAt, "html_url": v.URL, "author_association": "MEMBER"})
		}
		return all, err
	})
	s.route("GET /repos/{owner}/{repo}/collaborators/{login}/permission", "", func(c *call) (any, error) {
		login := c.PathValue("login")
		if strings.HasPrefix(login, "nobody") {
			return nil, refuse(http.StatusNotFound, "%s is not a user", login)
		}
		may, err := s.Fake.MayWrite(c.Context(), c.repo, login)
		return map[string]any{"permission": map[bool]string{true: "write", false: "read"}[may], "role_name": "custom", "user": map[string]any{"login": login}}, err
	})
	s.route("GET /repos/{owner}/{repo}/actions/jobs/{job}/logs", "", func(c *call) (any, error) {
		id, err := c.job()
		if err == nil {
			_, err = s.rawLog(id)
		}
		return redirect(s.store.URL + "/logs?sig=valid&of=" + strings.ReplaceAll(id, " ", "%20")), err
	})
	s.route("GET /repos/{owner}/{repo}/check-runs/{job}", "", func(c *call) (any, error) {
		log, err := c.log()
		return map[string]any{"id": atoi(c.PathValue("job")), "name": "app", "status": "completed", "output": map[string]any{"title": "t", "summary": log, "text": nil}}, err
	})
	gitHubPosting(s)
	s.route("POST /graphql", "", func(c *call) (any, error) { return s.graphQL(c) })
}

// gitHubSchema is the part of GitHub's GraphQL schema that the server
// implements: for each type, the type and the arguments of each field.
var gitHubSchema = map[string]map[string]string{
	"Query":                                  {"repository": "Repository", "node": "PullRequestReviewThread"},
	"Mutation":                               {"addPullRequestReviewThreadReply": "AddPullRequestReviewThreadReplyPayload", "resolveReviewThread": "ResolveReviewThreadPayload"},
	"Repository":                             {"pullRequest": "PullRequest", "nameWithOwner": ""},
	"PullRequest":                            {"reviewThreads": "PullRequestReviewThreadConnection", "number": "", "repository": "Repository"},
	"PageInfo":                               {"hasPreviousPage": "", "startCursor": "", "hasNextPage": "", "endCursor": ""},
	"Actor":                                  {"login": "", "url": ""},
	"PullRequestReviewComment":               {"databaseId": "", "author": "Actor", "body": "", "createdAt": "", "url": "", "id": "", "path": "", "line": ""},
	"ResolveReviewThreadPayload":             {"thread": "PullRequestReviewThread"},
	"PullRequestReviewThread":                {"id": "", "isResolved": "", "isOutdated": "", "path": "", "line": "", "originalLine": "", "startLine": "", "originalStartLine": "", "diffSide": "", "comments": "PullRequestReviewCommentConnection", "pullRequest": "PullRequest"},
	"AddPullRequestReviewThreadReplyPayload": {"comment": "PullRequestReviewComment"},
	"PullRequestReviewThreadConnection":      {"pageInfo": "PageInfo", "nodes": "PullRequestReviewThread", "totalCount": ""},
	"PullRequestReviewCommentConnection":     {"pageInfo": "PageInfo", "nodes": "PullRequestReviewComment", "totalCount": ""},
}

// selection is the part of an object that a query selects, by field name.
type selection map[string]selection

// parseGraphQL returns the query's selection. It rejects fields that the schema
// lacks, and objects without a selection.
func parseGraphQL(query string) (all selection, err error) {
	words := strings.Fields(strings.NewReplacer("{", " { ", "}", " } ", "(", " ( ", ")", " ) ", ",", " ").Replace(query))
	at := 0
	skip := func() { // arguments, which may be nested objects
		for depth := 0; at < len(words); at++ {
			switch words[at] {
			case "(":
				depth++
			case ")":
				if depth--; depth == 0 {
					at++
					return
				}
			}
		}
	}
	var fields func(of string) (selection, error)
	fields = func(of string) (selection, error) {
		out := selection{}
		for at++; at < len(words) && words[at] != "}"; {
			name := words[at]
			at++
			if name == "..." { // "... on Type {"
				if at+2 >= len(words) || words[at] != "on" || words[at+1] != of {
					return nil, fmt.Errorf("bad fragment on %s", of)
				}
				at += 2
				inner, err := fields(of)
				if err != nil {
					return nil, err
				}
				for k, v := range inner {
					out[k] = v
				}
				continue
			}
			kind, ok := gitHubSchema[of][name]
			if !ok {
				return nil, fmt.Errorf("the type %s has no field %s", of, name)
			}
			if at < len(words) && words[at] == "(" {
				skip()
			}
			switch object := at < len(words) && words[at] == "{"; {
			case object != (kind != ""):
				return nil, fmt.Errorf("the field %s must have a selection of subfields, or must not", name)
			case object:
				if out[name], err = fields(kind); err != nil {
					return nil, err
				}
			default:
				out[name] = nil
			}
		}
		at++
		return out, nil
	}
	root := "Query"
	if len(words) > 0 && words[0] == "mutation" {
		root = "Mutation"
	} else if len(words) == 0 || words[0] != "query" {
		return nil, fmt.Errorf("parse error on %q", query)
	}
	at = 1
	skip()
	all, err = fields(root)
	if err == nil && at != len(words) {
		err = errors.New("parse error at the end")
	}
	return all, err
}

// project returns the selected fields of a value.
func project(v any, s selection) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, of := range s {
			out[name] = project(v[name], of)
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, project(one, s))
		}
		return out
	}
	return v
}

// graphQL replies to queries about review threads. Like GitHub, it reports
// failures with the status 200.
func (s *Server) graphQL(c *call) (any, error) {
	v, err := decode[struct {
		Query     string
		Variables map[string]any
	}](c)
	if err != nil {
		return nil, err
	}
	failed := func(kind, format string, args ...any) (any, error) {
		return map[string]any{"data": nil, "errors": []any{map[string]any{"type": kind, "message": fmt.Sprintf(format, args...)}}}, nil
	}
	selected, err := parseGraphQL(v.Query)
	if err != nil || len(selected) != 1 {
		return failed("", "%v in a query with %d fields", err, len(selected))
	}
	data := map[string]any{}
	id, _ := v.Variables["id"].(string)
	thread, number := s.node(c, id)
	for name := range selected {
		switch {
		case name == "repository":
			if v.Variables["owner"] != s.Repo.Owner() || v.Variables["name"] != s.Repo.Name() {
				return failed("NOT_FOUND", "Could not resolve to a Repository with the name '%v/%v'.", v.Variables["owner"], v.Variables["name"])
			}
			n, ok := v.Variables["number"].(float64)
			if c.number = int(n); !ok || c.number < 1 || c.number > len(s.Fake.PullRequests(s.Repo)) {
				return failed("NOT_FOUND", "Could not resolve to a PullRequest with the number of %v.", v.Variables["number"])
			}
			before, _ := v.Variables["before"].(string)
			data[name] = map[string]any{"pullRequest": map[string]any{"reviewThreads": s.threadPage(c, before)}}
		case thread == nil:
			return failed("NOT_FOUND", "Could not resolve to a node with the global id of '%s'", id)
		case name == "node":
			data[name] = map[string]any{"id": id, "pullRequest": map[string]any{"number": number, "repository": map[string]any{"nameWithOwner": s.Repo.Path}}}
		case name == "resolveReviewThread":
			if err := s.Fake.Resolve(c.Context(), s.Repo, number, thread.ID); err != nil {
				return nil, err
			}
			data[name] = map[string]any{"thread": map[string]any{"id": id, "isResolved": true}}
		case name == "addPullRequestReviewThreadReply":
			body, _ := v.Variables["body"].(string)
			said, err := s.Fake.Reply(c.Context(), s.Repo, number, thread.ID, body)
			if err != nil {
				return nil, err
			}
			data[name] = map[string]any{"comment": gitHubNode(said)}
		}
	}
	return map[string]any{"data": project(data, selected)}, nil
}

// node returns the thread with a node id, and the number of its pull request.
func (s *Server) node(c *call, id string) (*forge.Thread, int) {
	for _, p := range s.Fake.PullRequests(s.Repo) {
		all, _ := s.Fake.Threads(c.Context(), s.Repo, p.Number) // never fails
		for _, t := range all {
			if gitHubThread(p.Number)(t.ID) == id {
				return &t, p.Number
			}
		}
	}
	return nil, 0
}

func gitHubNode(v forge.Comment) map[string]any {
	return map[string]any{"databaseId": atoi(v.ID), "author": map[string]any{"login": v.Author}, "body": v.Body, "createdAt": v.CreatedAt, "url": v.URL}
}

// threadPage returns the page of threads before a cursor. The cursor is an
// index in the list of all threads.
func (s *Server) threadPage(c *call, before string) map[string]any {
	all, _ := s.Fake.Threads(c.Context(), s.Repo, c.number) // never fails
	to := len(all)
	if before != "" {
		to = atoi(before)
	}
	from := max(to-s.page, 0)
	nodes := []any{}
	for _, t := range all[from:to] {
		said := []any{}
		for _, v := range t.Comments {
			said = append(said, gitHubNode(v))
		}
		nodes = append(nodes, map[string]any{"id": gitHubThread(c.number)(t.ID), "isResolved": t.Resolved, "isOutdated": t.Outdated, "path": t.Path, "line": t.Line,
			"originalLine": t.Line, "startLine": orNull(t.StartLine), "originalStartLine": orNull(t.StartLine), "diffSide": map[bool]string{false: "RIGHT", true: "LEFT"}[t.OldSide], "comments": map[string]any{"nodes": said}})
	}
	return map[string]any{"pageInfo": map[string]any{"hasPreviousPage": from > 0, "startCursor": itoa(from)}, "nodes": nodes}
}
