package agents

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newRunCommand(a *app) *cobra.Command {
	var model func() (*client.ModelRef, error)
	var name, class, mode, branch, env, hookSecret string
	var hook client.Webhook
	var current, plan, pr, draft bool
	var onPR, goal string
	var repos, refs, images, checks []string
	var follow bool
	var limits func() (*client.Amount, error)
	cmd := &cobra.Command{
		Use:   `run "PROMPT"`,
		Short: "Start a new agent",
		Long: `Start a new agent with a task, and watch it work.

Without --repo, the agent works on the repository of the current git checkout,
starting from the pushed state of its branch, or from the default branch if its
branch is not pushed. Outside of a checkout, it works on the team's default
repository.

Ctrl-C stops watching; the agent keeps running. If PROMPT is "-", it is read from
standard input.`,
		Example: `  aloft run "Fix the failing test"
  aloft run --repo https://git.example.com/team/app "Fix the failing test"
  aloft run --repo https://git.example.com/team/app --ref develop --image bug.png "Make it look like this"
  aloft run --repo https://git.example.com/team/app --repo https://git.example.com/team/api "Rename the field in both"
  aloft run --repo https://github.com/acme/app --pr "Add a test for the parser"
  aloft run --on-pr https://github.com/acme/app/pull/7 --current-branch "Do what the review asks for"
  aloft run --repo https://git.example.com/team/app --plan "Move to the new API"
  aloft run --repo https://git.example.com/team/app --max-cost 5 --max-time 2h "Find out why it is slow"
  aloft run --repo https://git.example.com/team/app --check "make test" --check "make lint" "Speed up the parser"
  aloft run --repo https://git.example.com/team/app --follow=false --json - < task.md`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if onPR != "" {
				repos = append([]string{""}, repos...)
			}
			if slices.Contains(repos, "") && onPR == "" {
				return command.Misuse(cmd, errors.New("--repo is empty: give the URL of the repository to work on"))
			}
			if len(refs) > max(1, len(repos)) {
				return command.Misuse(cmd, errors.New("more --ref than --repo: the first --ref belongs to the first --repo"))
			}
			if len(repos) == 0 {
				usual, err := a.usualRepo(cmd.Context(), append(refs, "")[0])
				if errors.Is(err, errNoRepo) {
					return command.Misuse(cmd, err)
				}
				if err != nil {
					return err
				}
				repos, refs = []string{usual.URL}, []string{usual.StartingRef}
			}
			prompt, err := a.readPrompt(args[0], images)
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			in := client.NewAgent{Prompt: prompt, Name: name, Class: class, RunMode: mode, BranchName: branch, WorkOnCurrentBranch: current, AutoCreatePR: pr || draft, DraftPR: draft, Checks: checks, Goal: goal}
			if plan {
				in.Mode = "plan"
			}
			if env != "" {
				in.Env = &client.Env{Type: "cloud", Name: env}
			}
			if in.Webhook, err = newWebhook(hook, hookSecret); err != nil {
				return err
			}
			if in.Limits, err = limits(); err != nil {
				return err
			}
			for i, url := range repos {
				in.Repos = append(in.Repos, client.Repo{URL: url})
				if i < len(refs) {
					in.Repos[i].StartingRef = refs[i]
				}
			}
			if onPR != "" {
				in.Repos[0].PRURL = onPR
			}
			if in.Model, err = model(); err != nil {
				return err
			}
			agent, run, err := c.CreateAgent(cmd.Context(), in, uuid.NewString())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				err = a.Out.Value(struct {
					Agent client.Agent `json:"agent"`
					Run   client.Run   `json:"run"`
				}{agent, run})
			} else {
				a.ShowIDs(agent.ID, run.ID)
			}
			if err != nil {
				return err
			}
			return a.WatchNewRun(cmd.Context(), c, agent.ID, run.ID, follow)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&repos, "repo", nil, "`URL` of the repository to work on (default: the remote of the current git checkout); may be given up to 20 times")
	flags.StringArrayVar(&refs, "ref", nil, "branch, tag or commit to start from (default: the default branch; without --repo, the checkout's branch); the first `ref` is for the first --repo")
	model = a.AddModelFlags(cmd, "model `id` (default: the first that 'aloft models' lists)", true)
	flags.StringVar(&name, "name", "", "`name` of the agent (default: the prompt's first words)")
	flags.StringVar(&branch, "branch", "", "`name` of the branch to create (default: derived from the prompt)")
	flags.BoolVar(&current, "current-branch", false, "work on the branch of --ref instead of a new one")
	flags.StringVar(&env, "env", "", "`name` of a saved environment for the machine (default: the repository's own)")
	flags.StringVar(&hook.URL, "webhook", "", "`URL` to notify when a run ends and when a request is waiting for an answer")
	flags.StringSliceVar(&hook.Events, "webhook-events", nil, "`events` for --webhook: statusChange, approvalRequested (default: both)")
	flags.StringVar(&hookSecret, "webhook-secret-file", "", "`file` with the secret that signs webhook deliveries, 32 to 256 bytes")
	flags.BoolVar(&pr, "pr", false, "open a pull request when the run finishes, or update the existing one")
	flags.BoolVar(&draft, "draft", false, "open the pull request as a draft; implies --pr")
	flags.StringVar(&onPR, "on-pr", "", "`URL` of a pull request to start from, instead of --repo; with --current-branch, push to its branch")
	cmd.MarkFlagsMutuallyExclusive("branch", "current-branch")
	cmd.MarkFlagsMutuallyExclusive("on-pr", "ref")
	flags.StringVar(&class, "class", "", "isolation `class` of the machine: strong, for gVisor (default: the server's)")
	flags.StringVar(&mode, "run-mode", "", "run `mode`, what the agent may do without asking: run-everything, auto-review or allowlist (default: yours)")
	flags.BoolVar(&plan, "plan", false, "have the agent plan first, and change nothing until you approve the plan")
	flags.StringArrayVar(&images, "image", nil, "image `file` for the model: PNG, JPEG, GIF or WebP; may be given up to 5 times")
	flags.StringArrayVar(&checks, "check", nil, "shell `command` that must pass on the pushed commit; if it fails, the agent continues; may be given up to 20 times")
	flags.StringVar(&goal, "goal", "", "goal of the run, in `words`; at the end a second model judges whether it is met, and if not, the agent continues")
	limits = limitFlags(cmd)
	flags.BoolVar(&follow, "follow", true, "watch until the run ends")
	a.AddOutputFlag(cmd)
	return cmd
}

// newWebhook returns the webhook that the flags describe, or nil.
func newWebhook(hook client.Webhook, secretFile string) (*client.Webhook, error) {
	switch {
	case hook.URL == "" && (secretFile != "" || len(hook.Events) > 0):
		return nil, command.UsageError(errors.New("--webhook-secret-file and --webhook-events require --webhook"))
	case hook.URL == "":
		return nil, nil
	case secretFile == "":
		return &hook, nil
	}
	secret, err := os.ReadFile(secretFile)
	if err != nil {
		return nil, command.UsageError(fmt.Errorf("webhook secret: %w", err))
	}
	hook.Secret = strings.TrimSpace(string(secret))
	return &hook, nil
}

// maxPrompt is the maximum number of bytes that are read of a prompt. The
// server has its own limit.
const maxPrompt = 32 << 20

// readPrompt returns the prompt in arg, or on standard input if arg is "-".
func (a *app) readPrompt(arg string, images []string) (client.Prompt, error) {
	p := client.Prompt{Text: arg}
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxPrompt))
		if err != nil {
			return p, fmt.Errorf("read the prompt: %w", err)
		}
		p.Text = string(data)
	}
	if strings.TrimSpace(p.Text) == "" {
		return p, command.UsageError(errors.New("the prompt is empty: tell the agent what to do"))
	}
	for _, file := range images {
		im, err := readImage(file)
		if err != nil {
			return p, command.UsageError(err)
		}
		p.Images = append(p.Images, im)
	}
	return p, nil
}

// maxImage is the maximum size of an image file, in bytes.
const maxImage = 32 << 20

func readImage(file string) (client.Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return client.Image{}, fmt.Errorf("image: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	if err != nil {
		return client.Image{}, fmt.Errorf("image: %w", err)
	}
	if len(data) > maxImage {
		return client.Image{}, fmt.Errorf("image %s is larger than %d MiB", filepath.Base(file), maxImage>>20)
	}
	kind := http.DetectContentType(data)
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return client.Image{}, fmt.Errorf("image %s is not PNG, JPEG, GIF or WebP", filepath.Base(file))
	}
	return client.Image{Data: data, MIMEType: kind}, nil
}
