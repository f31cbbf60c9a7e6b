package main

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

	"aloft/internal/client"
)

func newRunCommand(a *app) *cobra.Command {
	var model func() (*client.ModelRef, error)
	var name, class, mode, branch, env, hookSecret string
	var hook client.Webhook
	var current, plan, pr, draft bool
	var onPR string
	var repos, refs, images []string
	var follow bool
	var limits func() (*client.Amount, error)
	cmd := &cobra.Command{
		Use:   `run --repo URL "PROMPT"`,
		Short: "Give a task to a new agent",
		Long: `Give a task to a new agent, and watch it work.

Ctrl-C stops the watching, not the agent. The prompt "-" is read from standard
input.`,
		Example: `  aloft run --repo https://git.example.com/team/app "Fix the failing test"
  aloft run --repo https://git.example.com/team/app --ref develop --image bug.png "Make it look like this"
  aloft run --repo https://git.example.com/team/app --repo https://git.example.com/team/api "Rename the field in both"
  aloft run --repo https://github.com/acme/app --pr "Add a test for the parser"
  aloft run --on-pr https://github.com/acme/app/pull/7 --current-branch "Do what the review asks for"
  aloft run --repo https://git.example.com/team/app --plan "Move to the new API"
  aloft run --repo https://git.example.com/team/app --max-cost 5 --max-time 2h "Find out why it is slow"
  aloft run --repo https://git.example.com/team/app --follow=false --json - < task.md`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if onPR != "" {
				repos = append([]string{""}, repos...)
			}
			if len(repos) == 0 || repos[0] == "" && onPR == "" {
				return misuse(cmd, errors.New("--repo is missing: the URL of the repository to work on"))
			}
			if len(refs) > len(repos) {
				return misuse(cmd, errors.New("there are more --ref than --repo: the first --ref is for the first --repo"))
			}
			prompt, err := a.readPrompt(args[0], images)
			if err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			in := client.NewAgent{Prompt: prompt, Name: name, Class: class, RunMode: mode, BranchName: branch, WorkOnCurrentBranch: current, AutoCreatePR: pr || draft, DraftPR: draft}
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
			if a.out.JSON() {
				err = a.out.Value(struct {
					Agent client.Agent `json:"agent"`
					Run   client.Run   `json:"run"`
				}{agent, run})
			} else {
				a.showIDs(agent.ID, run.ID)
			}
			if err != nil {
				return err
			}
			return a.started(cmd.Context(), c, agent.ID, run.ID, follow)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&repos, "repo", nil, "`URL` of the repository to work on; may be given up to 20 times")
	flags.StringArrayVar(&refs, "ref", nil, "`ref` to start from, a branch, tag or commit; the default branch unless given; the first is for the first --repo")
	model = a.modelFlags(cmd, "`id` of a model; the one that 'aloft models' lists first unless given", true)
	flags.StringVar(&name, "name", "", "`name` of the agent; the prompt's first words unless given")
	flags.StringVar(&branch, "branch", "", "`name` of the branch to make; made of the prompt unless given")
	flags.BoolVar(&current, "current-branch", false, "work on the branch of --ref, and make none")
	flags.StringVar(&env, "env", "", "`name` of a saved environment for its machine; the repository's own unless given")
	flags.StringVar(&hook.URL, "webhook", "", "`URL` that is told of each end of its work, and of each question that waits")
	flags.StringSliceVar(&hook.Events, "webhook-events", nil, "`names` of what --webhook is told of: statusChange, approvalRequested; both unless given")
	flags.StringVar(&hookSecret, "webhook-secret-file", "", "`file` with the secret, of 32 to 256 bytes, that signs what --webhook is told")
	flags.BoolVar(&pr, "pr", false, "open a pull request when it has finished, or go on with the one there is")
	flags.BoolVar(&draft, "draft", false, "open it as a draft; goes without --pr")
	flags.StringVar(&onPR, "on-pr", "", "`URL` of a pull request to begin with, in place of --repo; with --current-branch its branch is pushed to")
	cmd.MarkFlagsMutuallyExclusive("branch", "current-branch")
	cmd.MarkFlagsMutuallyExclusive("on-pr", "ref")
	flags.StringVar(&class, "class", "", "`class` of the machine's isolation: strong, for gVisor; the server's own unless given")
	flags.StringVar(&mode, "run-mode", "", "`mode` that says how much it may do without asking: run-everything, auto-review or allowlist; your own unless given")
	flags.BoolVar(&plan, "plan", false, "have it make a plan first, and change nothing before you have approved it")
	flags.StringArrayVar(&images, "image", nil, "`file` with a picture for the model, PNG, JPEG, GIF or WebP; may be given up to 5 times")
	limits = limitFlags(cmd)
	flags.BoolVar(&follow, "follow", true, "watch until the run has ended")
	return cmd
}

// newWebhook returns the webhook of the flags, nil for none.
func newWebhook(hook client.Webhook, secretFile string) (*client.Webhook, error) {
	switch {
	case hook.URL == "" && (secretFile != "" || len(hook.Events) > 0):
		return nil, usageError{errors.New("--webhook-secret-file and --webhook-events go with --webhook")}
	case hook.URL == "":
		return nil, nil
	case secretFile == "":
		return &hook, nil
	}
	secret, err := os.ReadFile(secretFile)
	if err != nil {
		return nil, usageError{fmt.Errorf("webhook secret: %w", err)}
	}
	hook.Secret = strings.TrimSpace(string(secret))
	return &hook, nil
}

// maxPrompt bounds what is read of a prompt: the server has its own limit.
const maxPrompt = 32 << 20

// readPrompt returns the prompt of an argument, or of standard input for "-".
func (a *app) readPrompt(arg string, images []string) (client.Prompt, error) {
	p := client.Prompt{Text: arg}
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxPrompt))
		if err != nil {
			return p, fmt.Errorf("read the prompt: %w", err)
		}
		p.Text = string(data)
	}
	if strings.TrimSpace(p.Text) == "" {
		return p, usageError{errors.New("the prompt is empty: say what the agent is to do")}
	}
	for _, file := range images {
		im, err := readImage(file)
		if err != nil {
			return p, usageError{err}
		}
		p.Images = append(p.Images, im)
	}
	return p, nil
}

// maxImage bounds what is sent of a picture.
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
		return client.Image{}, fmt.Errorf("image %s is neither PNG, JPEG, GIF nor WebP", filepath.Base(file))
	}
	return client.Image{Data: data, MIMEType: kind}, nil
}
