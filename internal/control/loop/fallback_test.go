package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/conversation"
)

// named returns a function for [loop.Config] that finds the given models by
// name.
func named(models map[string]*answers) func(string) (model.Model, model.Info, error) {
	return func(id string) (model.Model, model.Info, error) {
		if m, ok := models[id]; ok {
			return m, model.Info{ID: id, Images: true}, nil
		}
		return nil, model.Info{}, errors.New("no such model")
	}
}

func TestFallback(t *testing.T) {
	busy := fail(&model.Error{Reason: model.Overloaded, Status: 529})
	limited := fail(&model.Error{Reason: model.RateLimited, Status: 429})
	cut := fail(&model.Error{Reason: model.Cut})
	for _, c := range []struct {
		name         string
		own          []step
		second       []step
		change       func(*rig)
		models       string // the models that wrote the replies
		switched     int
		asked, after int // requests to the two models
	}{
		{"AfterTheConfiguredAttempts", []step{busy, limited}, []step{use(`Shell {"command":"true"}`), say("done")}, nil, "second second", 1, 2, 2},
		{"NotBefore", []step{busy, say("done")}, nil, nil, "m", 0, 2, 0},
		{"NotForOtherFailures", []step{cut, cut, say("done")}, nil, nil, "m", 0, 3, 0},
		{"NotIfItsPriceIsUnknown", []step{busy, busy, say("done")}, nil, func(r *rig) {
			zero := 0.0
			r.info.Price = &model.Price{Input: &zero, Output: &zero, CacheRead: &zero, CacheWrite: &zero}
			r.allowed = allowance.Amount{Cost: 1}
		}, "m", 0, 3, 0},
		{"NotConfiguredAnyMore", []step{busy, busy, say("done")}, nil, func(r *rig) { r.info.Fallback = "gone" }, "m", 0, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, false)
				r.info.Fallback, r.info.FallbackAfter = "second", 2
				if c.change != nil {
					c.change(r)
				}
				second := &answers{steps: c.second}
				r.model.steps = c.own
				r.change = func(cfg *loop.Config) { cfg.Models.Named = named(map[string]*answers{"second": second}) }
				run := r.work(context.Background())
				var models []string
				for _, b := range bodies[*agent.TurnReplied](r) {
					models = append(models, b.Model)
				}
				if run.Status != agent.Finished || strings.Join(models, " ") != c.models || len(r.model.requests) != c.asked || len(second.requests) != c.after {
					t.Errorf("%s: %s; models %q, %d and %d requests", run.Status, run.Result, models, len(r.model.requests), len(second.requests))
				}
				switched := bodies[*agent.ModelFallback](r)
				if len(switched) != c.switched {
					t.Fatalf("%d fallbacks in the journal, want %d", len(switched), c.switched)
				}
				if c.switched > 0 && *switched[0] != (agent.ModelFallback{From: "m", To: "second", Reason: "model_rate_limited", Attempts: 2}) {
					t.Errorf("journaled %+v", switched[0])
				}
			})
		})
	}
}

// TestFallbackUntilTheRunEnds checks that the fallback continues the run even
// after a restart of the server, and that the next run starts with the agent's
// own model.
func TestFallbackUntilTheRunEnds(t *testing.T) {
	r := newRig(t, false)
	r.record(&agent.RunStarted{}, &agent.ModelFallback{From: "m", To: "second", Reason: "model_overloaded", Attempts: 3})
	second := &answers{steps: []step{say("done")}}
	r.change = func(cfg *loop.Config) { cfg.Models.Named = named(map[string]*answers{"second": second}) }
	r.work(t.Context())
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "more")})
	r.model.steps = []step{say("done again")}
	if run := r.work(t.Context()); run.Result != "done again" || len(second.requests) != 1 {
		t.Errorf("%+v; the fallback was asked %d times", run, len(second.requests))
	}
}

// TestFallbackAndReasoning has one Claude model continue another's turn. Like
// the real API, the test's server rejects the reasoning of another model.
func TestFallbackAndReasoning(t *testing.T) {
	first := modeltest.NewAnthropic(t,
		modeltest.Reply{Thinking: "First, look.", Calls: []modeltest.Call{{Name: "Shell", Args: `{"command":"true"}`}}},
		modeltest.Reply{Status: 529, Message: "Overloaded"})
	second := modeltest.NewAnthropic(t,
		modeltest.Reply{Calls: []modeltest.Call{{Name: "Shell", Args: `{"command":"false"}`}}},
		modeltest.Reply{Text: "done"})
	open := func(s *modeltest.Server, name string) model.Model {
		return anthropic.New(anthropic.Config{Name: name, BaseURL: s.URL, Key: modeltest.Key, Thinking: 2048})
	}
	r := newRig(t, false)
	r.info = model.Info{ID: "opus", Fallback: "haiku", FallbackAfter: 1}
	r.change = func(cfg *loop.Config) {
		cfg.Models.Model = open(first, modeltest.Model)
		cfg.Models.Named = func(string) (model.Model, model.Info, error) {
			return open(second, modeltest.Second), model.Info{ID: "haiku"}, nil
		}
	}
	if run := r.work(t.Context()); run.Result != "done" {
		t.Errorf("%s: %+v", run.Status, run.Failure)
	}
	if refused := slices.Concat(first.Refusals(), second.Refusals()); len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
}
