package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/gitcmd"
	"aloft/internal/text"
	catalogue "aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

const (
	applyTime  = 2 * time.Minute
	maxGitSays = 4000 // bytes of git's messages in a result
)

// ApplyAgentDiff applies the changes of another agent, which the control plane
// has read, to the working trees.
func ApplyAgentDiff(ws Workspace) Tool {
	return Tool{Name: "ApplyAgentDiff", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		editing.Lock()
		defer editing.Unlock()
		success, text, err := applyAgentDiff(ctx, ws, call.GetApplyAgentDiffToolCall().GetArgs())
		result := &agentv1.ApplyAgentDiffResult{Result: &agentv1.ApplyAgentDiffResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.ApplyAgentDiffResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.ApplyAgentDiffToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_ApplyAgentDiffToolCall{ApplyAgentDiffToolCall: done}}, text, err)
	}}
}

func applyAgentDiff(ctx context.Context, ws Workspace, args *agentv1.ApplyAgentDiffArgs) (*agentv1.ApplyAgentDiffSuccess, string, error) {
	if args == nil {
		return nil, "", errNoArguments
	}
	var patches []catalogue.Patch
	if err := json.Unmarshal(args.GetPayload(), &patches); err != nil || len(patches) == 0 {
		return nil, "", errors.New("the changes did not arrive, because the server was interrupted: call ApplyAgentDiff again")
	}
	success := &agentv1.ApplyAgentDiffSuccess{}
	for i, p := range patches {
		dir, err := ws.path(filepath.Join(ws.Dir, p.Folder))
		if err == nil {
			err = applyPatch(ctx, dir, p, success)
		}
		if err != nil && i > 0 {
			err = fmt.Errorf("%w (the changes to the %d repositories before it were applied)", err, i)
		}
		if err != nil {
			return nil, "", err
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Applied the changes to %s:\n", plural(len(success.GetChangedFiles()), "file"))
	const shown = 200
	for i, name := range success.GetChangedFiles() {
		if i == shown {
			fmt.Fprintf(&text, "… and %d more\n", len(success.GetChangedFiles())-shown)
			break
		}
		text.WriteString(name + "\n")
	}
	if n := len(success.GetConflicts()); n > 0 {
		fmt.Fprintf(&text, "\n%s with conflicts: resolve them at the conflict markers, then git add the files.\n", plural(n, "file"))
		for _, name := range success.GetConflicts() {
			text.WriteString(name + "\n")
		}
	}
	return success, valid(text.String()), nil
}

// applyPatch applies the changes to one repository. If git leaves conflicts, the
// other changes are applied. Otherwise a failure changes nothing.
func applyPatch(ctx context.Context, dir string, p catalogue.Patch, success *agentv1.ApplyAgentDiffSuccess) error {
	repo, ok := gitcmd.Open(dir)
	if !ok {
		return fmt.Errorf("%s is not the working tree of a repository", dir)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, applyTime, fmt.Errorf("git took longer than %v", applyTime))
	defer cancel()
	scratch, err := os.MkdirTemp("", "aloft-apply-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // a restart of the machine removes leftovers
	// Ignore the repository's configuration, which may name filters and merge
	// drivers: they would run outside of the sandbox.
	git, err := gitcmd.Git{System: os.Getenv("GIT_CONFIG_SYSTEM")}.On(repo, filepath.Join(scratch, "git")) //nolint:forbidigo // pod-daemon sets this variable
	if err != nil {
		return err
	}
	run := func(stdin []byte, args ...string) (stdout, stderr string, err error) {
		var out, words bytes.Buffer
		cmd := git.Command(ctx, args...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(stdin), &out, &words
		err = cmd.Run()
		return out.String(), words.String(), err
	}
	unmerged := func() ([]string, error) {
		out, words, err := run(nil, "diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff", "--")
		if err != nil {
			return nil, errors.New(cutText(words))
		}
		return strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), nil
	}
	before, err := unmerged()
	if err != nil {
		return err
	}
	if len(before) > 0 {
		return fmt.Errorf("%s has unresolved conflicts, for example in %s: nothing was changed; resolve them and git add the files first", dir, before[0])
	}
	// Without fresh times in the index, files that were only touched would count
	// as changed.
	_, _, _ = run(nil, "update-index", "-q", "--refresh")
	_, words, failed := run(p.Text, "apply", "--3way", "--whitespace=nowarn", "-")
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	conflicts, err := unmerged()
	if err != nil {
		return err
	}
	if failed != nil && len(conflicts) == 0 {
		hint := ""
		if strings.Contains(words, "does not match index") {
			hint = "\nCommit your own changes to these files first."
		}
		return fmt.Errorf("the changes do not apply to %s, and nothing was changed there:\n%s%s", dir, cutText(words), hint)
	}
	for _, name := range p.Files {
		success.ChangedFiles = append(success.ChangedFiles, valid(filepath.Join(dir, name)))
	}
	for _, name := range conflicts {
		success.Conflicts = append(success.Conflicts, valid(filepath.Join(dir, name)))
	}
	return nil
}

// cutText returns the beginning of git's messages.
func cutText(words string) string { return text.Head(strings.TrimSpace(words), maxGitSays) }
