package automation

import (
	"context"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// folder is the default branch of a repository.
type folder struct {
	commit string
	files  map[string][]byte
	err    error
}

func (f *folder) Automations(_ context.Context, _, known string) (string, map[string][]byte, error) {
	if f.err != nil || f.commit == known {
		return known, nil, f.err
	}
	return f.commit, f.files, nil
}

func TestSync(t *testing.T) {
	w := newWorld(t)
	f := &folder{}
	r := Repository{URL: repoURL, UserID: 7}
	known := ""
	sync := func(commit string, files map[string]string) map[string]store.Automation {
		t.Helper()
		f.commit, f.files = commit, map[string][]byte{}
		for name, text := range files {
			f.files[Folder+"/"+name] = []byte(text)
		}
		var err error
		if known, err = w.desk.Sync(t.Context(), f, r, known); err != nil || known != commit {
			t.Fatal(known, err)
		}
		all, err := w.store.RepoAutomations(t.Context(), repoURL)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]store.Automation{}
		for _, a := range all {
			out[strings.TrimPrefix(a.Path, Folder+"/")] = a
		}
		return out
	}
	const daily, hourly, wrong = "name: x\nprompt: y\non: {schedule: {cron: '0 3 * * *'}}", "name: x\nprompt: y\non: {schedule: {cron: '@hourly'}}", "name: x\nprompt: y\ncron: daily"
	all := sync("c1", map[string]string{"a.yaml": daily, "b.yaml": wrong})
	first := all["a.yaml"]
	if first.State != store.AutomationActive || first.Version != 1 || first.UserID != 7 || first.Commit != "c1" || first.NextAt.IsZero() {
		t.Errorf("added %+v", first)
	}
	if b := all["b.yaml"]; b.State != store.AutomationPaused || !strings.Contains(b.Reason, "cron") || !b.DueAt.IsZero() {
		t.Errorf("an invalid file: %+v", b)
	}
	all = sync("c2", map[string]string{"a.yaml": daily, "b.yaml": daily})
	if a := all["a.yaml"]; a.Version != 1 || a.Commit != "c2" || !a.NextAt.Equal(first.NextAt) {
		t.Errorf("an unchanged file: %+v", a)
	}
	if b := all["b.yaml"]; b.State != store.AutomationActive || b.Reason != "" || b.NextAt.IsZero() {
		t.Errorf("a corrected file: %+v", b)
	}
	if _, err := w.store.ChangeAutomation(t.Context(), first.ID, func(a *store.Automation) ([]store.AutomationStart, error) {
		a.State, a.Reason = store.AutomationPaused, "by hand"
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	all = sync("c3", map[string]string{"a.yaml": hourly, "b.yaml": wrong})
	if a := all["a.yaml"]; a.Version != 2 || a.State != store.AutomationPaused || !a.DueAt.IsZero() {
		t.Errorf("a changed file of a paused automation: %+v", a)
	}
	if b := all["b.yaml"]; b.State != store.AutomationPaused || !strings.Contains(string(b.Spec), "0 3") {
		t.Errorf("a file that has become invalid: %+v", b)
	}
	w.want(all["b.yaml"])
	if all = sync("c4", map[string]string{"a.yaml": hourly}); len(all) != 1 {
		t.Errorf("a removed file: %+v", all)
	}
	f.err = fault.Unavailable("away")
	if _, err := w.desk.Sync(t.Context(), f, r, known); err == nil {
		t.Error("an unreachable repository is not reported")
	}
	if all, err := w.store.RepoAutomations(t.Context(), repoURL); err != nil || len(all) != 1 {
		t.Errorf("an unreachable repository has lost its automations: %+v, %v", all, err)
	}
}

func TestFollow(t *testing.T) {
	w := newWorld(t)
	f := &folder{commit: "c1", files: map[string][]byte{Folder + "/a.yaml": []byte("name: x\nprompt: y")}}
	repos := func(context.Context) ([]Repository, error) { return []Repository{{repoURL, 7}}, nil }
	if mine, err := w.store.Acquire(t.Context(), "automation-files", "another", time.Hour); !mine || err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan bool)
	go func() {
		w.desk.Follow(ctx, f, w.store, repos, time.Millisecond)
		close(over)
	}()
	count := func() int {
		all, err := w.store.RepoAutomations(t.Context(), repoURL)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for range 20 {
		if count() != 0 {
			t.Fatal("read by a server without the lease")
		}
	}
	if err := w.store.Release(t.Context(), "automation-files", "another"); err != nil {
		t.Fatal(err)
	}
	for count() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the file was not read in time")
		}
	}
	stop()
	<-over
}
