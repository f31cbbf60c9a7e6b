package lsp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"
)

// How long a server that publishes diagnostics without a request must be silent to be
// considered done.
const (
	quiet     = 700 * time.Millisecond
	pollEvery = 50 * time.Millisecond
	retries   = 5 // of a request that the server cancelled
)

// lint returns the server's diagnostics for files, which are all below its root. partial
// says why they may be incomplete. An error means that the server failed, not that the
// files have problems.
func (s *server) lint(ctx context.Context, files, changed []string) (found []Diagnostic, partial string, err error) {
	s.turn++
	defer func() {
		s.mu.Lock()
		s.lastUsed = time.Now()
		s.mu.Unlock()
	}()
	s.mu.Lock()
	s.trouble = ""
	s.mu.Unlock()
	moved, err := s.tell(ctx, changed)
	if err != nil {
		return nil, "", s.explain(err)
	}
	for _, f := range moved { // the server prefers an open document to the file on disk
		if s.open[f] != nil && !slices.Contains(files, f) {
			if _, err := s.show(ctx, f, false); err != nil {
				return nil, "", s.explain(err)
			}
		}
	}
	var here []string
	for _, f := range files {
		ok, err := s.show(ctx, f, len(moved) > 0 && s.linter.rereads)
		if err != nil {
			return nil, "", s.explain(err)
		}
		if ok {
			here = append(here, f)
		}
	}
	switch {
	case s.linter.ask != nil:
		found, err = s.askAll(ctx, here, s.linter.ask)
	case s.pulls:
		found, err = s.askAll(ctx, here, pull)
	default:
		err = s.waitUntilSettled(ctx, here)
		s.mu.Lock()
		for _, f := range here {
			found = append(found, s.diagnostics[f]...)
		}
		s.mu.Unlock()
	}
	if err != nil && s.alive() && ctx.Err() != nil {
		return found, context.Cause(ctx).Error(), nil
	}
	if err == nil && len(found) == 0 && s.linter.logs {
		s.mu.Lock()
		if s.trouble != "" {
			err = errors.New(s.trouble)
		}
		s.mu.Unlock()
	}
	if err != nil {
		return found, "", s.explain(err)
	}
	return found, "", s.forget(ctx)
}

// askAll requests diagnostics for one document after another.
func (s *server) askAll(ctx context.Context, files []string, ask func(context.Context, *server, string) ([]Diagnostic, error)) ([]Diagnostic, error) {
	var found []Diagnostic
	for _, f := range files {
		of, err := ask(ctx, s, f)
		if err != nil {
			return found, err
		}
		found = append(found, of...)
	}
	return found, nil
}

// pull requests a document's diagnostics (protocol 3.17).
func pull(ctx context.Context, s *server, path string) ([]Diagnostic, error) {
	for try := 1; ; try++ {
		var report struct{ Items []item }
		err := s.conn.call(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]string{"uri": uri(path)}}, &report)
		if err == nil {
			return diagnostics(report.Items, path, s.linter.name), nil
		}
		if refused, ok := errors.AsType[*rpcError](err); !ok || refused.Code != codeCancelled || try == retries {
			return nil, err
		}
	}
}

// askTypescript gets diagnostics from tsserver through its language server,
// which publishes them in pieces and never says when it is done.
func askTypescript(ctx context.Context, s *server, path string) ([]Diagnostic, error) {
	var found []Diagnostic
	for _, command := range []string{"syntacticDiagnosticsSync", "semanticDiagnosticsSync"} {
		var answer struct {
			Body []struct {
				Start, End struct{ Line, Offset int }
				Text       string
				Code       json.RawMessage
				Category   string
				Source     string
			}
		}
		err := s.conn.call(ctx, "workspace/executeCommand", map[string]any{
			"command": "typescript.tsserverRequest", "arguments": []any{command, map[string]string{"file": path}},
		}, &answer)
		if err != nil {
			return found, err
		}
		for _, d := range answer.Body[:min(len(answer.Body), maxOfFile)] {
			severity := map[string]Severity{"error": Error, "warning": Warning, "message": Information, "suggestion": Hint}[d.Category]
			code := string(d.Code)
			if code == "null" {
				code = ""
			}
			found = append(found, Diagnostic{
				Path: path, StartLine: d.Start.Line, StartColumn: d.Start.Offset, EndLine: d.End.Line, EndColumn: d.End.Offset,
				Severity: severity, Source: "typescript", Code: code, Message: d.Text,
			}.bound())
		}
	}
	return found, nil
}

// tell notifies the server of files that have changed since it read them, and returns
// the paths of these files.
func (s *server) tell(ctx context.Context, changed []string) (moved []string, err error) {
	const created, modified, deleted = 1, 2, 3
	type event struct {
		URI  string `json:"uri"`
		Type int    `json:"type"`
	}
	var events []event
	now := make(map[string]int64, len(changed))
	note := func(path string) {
		var at int64
		if info, err := os.Lstat(path); err == nil {
			at = info.ModTime().UnixNano() + info.Size()
		}
		before, known := s.seen[path]
		now[path] = at
		switch {
		case known && before == at, s.turn == 1:
		case at == 0:
			events = append(events, event{uri(path), deleted})
		case known && before != 0:
			events = append(events, event{uri(path), modified})
		default:
			// The file is new to the pool or to the tree; servers accept both
			// events for either.
			events = append(events, event{uri(path), created}, event{uri(path), modified})
		}
		if !known || before != at {
			moved = append(moved, path)
		}
	}
	for _, path := range changed {
		note(path)
	}
	for path := range s.seen { // files that have changed back to their state at the mark
		if _, still := now[path]; !still {
			note(path)
		}
	}
	s.seen = now
	if len(events) == 0 {
		return moved, nil
	}
	return moved, s.conn.notify(ctx, "workspace/didChangeWatchedFiles", map[string]any{"changes": events})
}

// show opens a document in the server, or sends it again if it has changed or
// anew is set. It returns false for a file that is not text, is too large, or
// does not exist.
func (s *server) show(ctx context.Context, path string, anew bool) (bool, error) {
	text, ok := source(path)
	sum := sha256.Sum256([]byte(text))
	d := s.open[path]
	if !ok {
		if d != nil {
			return false, s.hide(ctx, path)
		}
		return false, nil
	}
	switch {
	case d == nil:
		d = &document{sum: sum, version: 1, turn: s.turn}
		s.open[path] = d
		s.expect(path, d.version)
		return true, s.conn.notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": uri(path), "languageId": s.linter.language.ids[filepath.Ext(path)], "version": 1, "text": text,
		}})
	case d.sum == sum && !anew:
		d.turn = s.turn
		return true, nil
	}
	d.sum, d.turn = sum, s.turn
	d.version++
	s.expect(path, d.version)
	params := map[string]any{
		"textDocument":   map[string]any{"uri": uri(path), "version": d.version},
		"contentChanges": []any{map[string]string{"text": text}},
	}
	if anew {
		params["forceRebuild"] = true // an extension of clangd
	}
	return true, s.conn.notify(ctx, "textDocument/didChange", params)
}

// source returns a file's text, if it can be sent to a server.
func source(path string) (string, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSource {
		return "", false
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) > maxSource || !utf8.Valid(text) {
		return "", false
	}
	return string(text), true
}

// expect prepares to wait for diagnostics of the given version of a document, or of a
// later one.
func (s *server) expect(path string, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported[path], s.versions[path] = false, version
	s.spoke = time.Now()
}

func (s *server) hide(ctx context.Context, path string) error {
	delete(s.open, path)
	s.mu.Lock()
	delete(s.diagnostics, path)
	delete(s.reported, path)
	delete(s.versions, path)
	s.mu.Unlock()
	return s.conn.notify(ctx, "textDocument/didClose", map[string]any{"textDocument": map[string]string{"uri": uri(path)}})
}

// forget closes the least recently linted documents if too many are open.
func (s *server) forget(ctx context.Context) error {
	for len(s.open) > maxOpen {
		oldest, turn := "", s.turn+1
		for path, d := range s.open {
			if d.turn < turn {
				oldest, turn = path, d.turn
			}
		}
		if err := s.hide(ctx, oldest); err != nil {
			return err
		}
	}
	return nil
}

// waitUntilSettled waits until the server has published diagnostics for every
// file and has then been silent for a short time.
func (s *server) waitUntilSettled(ctx context.Context, files []string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !s.hasSettled(files) {
		select {
		case <-tick.C:
		case <-s.conn.done:
			return s.conn.reason()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", s.linter.name, context.Cause(ctx))
		}
	}
	return nil
}

func (s *server) hasSettled(files []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range files {
		if !s.reported[f] {
			return false
		}
	}
	return len(s.working) == 0 && time.Since(s.spoke) >= quiet
}
