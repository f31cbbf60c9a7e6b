package v0

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

// object is a JSON object of /v1.
type object map[string]any

// The fields of /v1 replies that this package uses.
type (
	v1Agent struct {
		ID, Name, URL string
		CreatedAt     time.Time
		LatestRunID   string
		AutoCreatePR  bool
		SummaryHidden bool // set in lists only
		Repos         []struct{ URL, StartingRef string }
	}
	v1Run struct {
		Status, Result string
		Git            struct {
			Branches []struct{ Branch, PRURL string }
		}
	}
	v1Created struct {
		Agent v1Agent
		Run   v1Run
	}
	v1Agents struct {
		Items      []v1Agent
		NextCursor string
	}
)

const agentsPath = "/v1/agents"

func create(c Call) (any, error) {
	var in CreateAgentRequest
	if err := c.Body(&in); err != nil {
		return nil, err
	}
	body, err := in.v1()
	if err != nil {
		return nil, err
	}
	var made v1Created
	if err := c.V1("POST", agentsPath, body, &made); err != nil {
		return nil, err
	}
	return agentOf(c, made.Agent, made.Run)
}

// v1 converts the request to /v1.
func (in *CreateAgentRequest) v1() (object, error) {
	prompt, err := in.Prompt.v1()
	if err != nil {
		return nil, err
	}
	out := object{"prompt": prompt}
	if in.Model != nil {
		out["model"] = object{"id": *in.Model}
	}
	if in.Source == nil {
		return nil, fault.Invalid("is required").Named("repository_required").At("source")
	}
	repo := object{}
	switch s := in.Source; {
	case s.Repository != nil:
		repo["url"] = *s.Repository
	case s.PRURL == nil:
		return nil, fault.Invalid("is required").Named("repository_required").At("source.repository")
	}
	if in.Source.PRURL != nil {
		repo["prUrl"] = *in.Source.PRURL
	}
	if in.Source.Ref != nil {
		repo["startingRef"] = *in.Source.Ref
	}
	out["repos"] = []object{repo}
	if t := in.Target; t != nil {
		out["autoCreatePR"], out["skipReviewerRequest"] = t.AutoCreatePR, t.SkipReviewerRequest
		out["openAsCursorGithubApp"] = t.OpenAsCursorGithubApp
		out["workOnCurrentBranch"] = t.AutoBranch != nil && !*t.AutoBranch
		if t.BranchName != nil {
			out["branchName"] = *t.BranchName
		}
	}
	if in.Webhook != nil {
		out["webhook"] = object{"url": in.Webhook.URL, "secret": in.Webhook.Secret, "events": []string{"statusChange"}} // /v0 receivers know only this event
	}
	return out, nil
}

// v1 converts the prompt to /v1. It detects the media types of the images,
// which /v0 requests do not contain.
func (p *Prompt) v1() (object, error) {
	if p == nil {
		return nil, fault.Invalid("is required").At("prompt")
	}
	images := []object{}
	for i, im := range p.Images {
		out := object{}
		if im.URL != nil {
			out["url"] = *im.URL
		}
		if im.Data != nil {
			data, media, err := picture(*im.Data)
			if err != nil {
				return nil, fault.Invalid("is not base64").At(fmt.Sprintf("prompt.images[%d].data", i))
			}
			out["data"], out["mimeType"] = data, media
		}
		if im.Dimension != nil {
			out["dimension"] = im.Dimension
		}
		images = append(images, out)
	}
	return object{"text": p.Text, "images": images}, nil
}

// picture strips the prefix of a data URL from an image, if it has one, and
// detects the media type from its first bytes.
func picture(data string) (plain, media string, err error) {
	if rest, ok := strings.CutPrefix(data, "data:"); ok {
		if _, rest, ok = strings.Cut(rest, ";base64,"); ok {
			data = rest
		}
	}
	first := make([]byte, 512) // the number of bytes that DetectContentType uses
	n, err := io.ReadFull(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)), first)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // a short image; /v1 validates the rest
	}
	return data, http.DetectContentType(first[:n]), err
}

func list(c Call) (any, error) {
	query := url.Values{}
	for _, name := range []string{"limit", "cursor"} {
		if q := c.Request().URL.Query(); q.Has(name) {
			query.Set(name, q.Get(name))
		}
	}
	var page v1Agents
	if err := c.V1("GET", agentsPath+"?"+query.Encode(), nil, &page); err != nil {
		return nil, err
	}
	out := ListAgents{Agents: []Agent{}, NextCursor: page.NextCursor}
	for _, a := range page.Items {
		one, err := show(c, a.ID)
		if fault.Is(err, fault.KindNotFound) {
			continue // the agent was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if a.SummaryHidden {
			one.Summary = ""
		}
		out.Agents = append(out.Agents, one)
	}
	return out, nil
}

func get(c Call) (any, error) { return show(c, c.Request().PathValue("id")) }

// show returns an agent with its latest run.
func show(c Call, id string) (Agent, error) {
	var a v1Agent
	if err := c.V1("GET", agentPath(id), nil, &a); err != nil {
		return Agent{}, err
	}
	var run v1Run
	if err := c.V1("GET", agentPath(id)+"/runs/"+a.LatestRunID, nil, &run); err != nil {
		return Agent{}, err
	}
	return agentOf(c, a, run)
}

func agentPath(id string) string { return agentsPath + "/" + url.PathEscape(id) }

func agentOf(c Call, a v1Agent, run v1Run) (Agent, error) {
	out := Agent{
		ID: a.ID, Name: a.Name, Status: status(agent.Status(run.Status)), Summary: run.Result, CreatedAt: a.CreatedAt,
		Target: AgentTarget{URL: a.URL, AutoCreatePR: a.AutoCreatePR},
	}
	private, begun, err := c.Private(a.ID, a.LatestRunID)
	if err != nil {
		return out, err
	}
	if private || begun { // the name comes from the first run's prompt
		out.Name = a.ID
	}
	if private {
		out.Summary = ""
	}
	if len(a.Repos) > 0 {
		out.Source = AgentSource{Repository: a.Repos[0].URL, Ref: a.Repos[0].StartingRef}
	}
	for _, b := range run.Git.Branches {
		out.Target.BranchName, out.Target.PRURL = b.Branch, b.PRURL
		return out, nil
	}
	first, err := c.Events(a.ID, 0)
	if err != nil {
		return out, err
	}
	if len(first) > 0 {
		if made, ok := first[0].Body.(*agent.Created); ok {
			out.Target.BranchName = made.Branch
		}
	}
	return out, nil
}

// status converts a run's status to /v0, which has no "cancelled": a cancelled
// run counts as finished.
func status(s agent.Status) string {
	if s == agent.Cancelled {
		s = agent.Finished
	}
	return string(s)
}

func remove(c Call) (any, error) {
	var out ID
	return &out, c.V1("DELETE", agentPath(c.Request().PathValue("id")), nil, &out)
}

func followUp(c Call) (any, error) {
	id := c.Request().PathValue("id")
	var a v1Agent
	if err := c.V1("GET", agentPath(id), nil, &a); err != nil {
		return nil, err // checked before a body of up to 110 MiB is read
	}
	var in FollowupRequest
	if err := c.Body(&in); err != nil {
		return nil, err
	}
	prompt, err := in.Prompt.v1()
	if err != nil {
		return nil, err
	}
	var made struct{}
	return ID{ID: id}, c.V1("POST", agentPath(id)+"/runs", object{"prompt": prompt}, &made)
}

func stop(c Call) (any, error) {
	id := c.Request().PathValue("id")
	var a v1Agent
	if err := c.V1("GET", agentPath(id), nil, &a); err != nil {
		return nil, err
	}
	var stopped ID
	return ID{ID: id}, c.V1("POST", agentPath(id)+"/runs/"+a.LatestRunID+"/cancel", nil, &stopped)
}

func conversation(c Call) (any, error) {
	id := c.Request().PathValue("id")
	var a v1Agent
	if err := c.V1("GET", agentPath(id), nil, &a); err != nil {
		return nil, err
	}
	out := Conversation{ID: a.ID, Messages: []Message{}}
	for after := int64(0); ; {
		events, err := c.Events(id, after)
		if err != nil || len(events) == 0 {
			return out, err
		}
		for _, e := range events {
			m := Message{ID: fmt.Sprintf("msg_%d", e.Seq)}
			switch b := e.Body.(type) {
			case *agent.RunCreated:
				m.Type, m.Text = "user_message", b.Prompt.PlainText()
			case *agent.TurnReplied:
				m.Type, m.Text = "assistant_message", b.Message.PlainText()
			}
			if m.Text != "" {
				out.Messages = append(out.Messages, m)
			}
			after = e.Seq
		}
	}
}
