// Package prompt has the system prompts of agents and of subagents.
package prompt

import (
	"cmp"
	_ "embed"
	"strings"
	"text/template"

	"aloft/internal/agent"
	"aloft/internal/environment"
	"aloft/internal/subagent"
)

//go:embed prompts/system.md
var systemWords string

// helperWords is the prompt for agents that work out how to set up a machine.
//
//go:embed prompts/vm_setup_helper.md
var helperWords string

// reviewerWords is the prompt for agents that review a change.
//
//go:embed prompts/reviewer.md
var reviewerWords string

// subagentWords begins every subagent's system prompt; each of the other texts
// is added for one type of subagent.
var (
	//go:embed prompts/subagent.md
	subagentWords string
	//go:embed prompts/explore.md
	exploreWords string
	//go:embed prompts/debug.md
	debugWords string
	//go:embed prompts/video_review.md
	reviewWords string
	//go:embed prompts/computer_use.md
	computerWords string
)

// kindWords maps Aloft's own subagents to the instructions that are added for
// them.
var kindWords = map[string]string{subagent.Explore: exploreWords, subagent.Debug: debugWords, subagent.VideoReview: reviewWords, subagent.ComputerUse: computerWords, subagent.VMSetupHelper: helperWords}

var subagentTemplate = template.Must(template.New("subagent").Parse(subagentWords))

var systemTemplate = template.Must(template.New("system").Parse(systemWords))

// System returns the agent's system prompt. It never changes during an
// agent's life, so that providers can cache it.
func System(s *agent.State) string {
	words := fill(systemTemplate, s)
	if s.Agent.Env.Preset == agent.VMSetupHelper {
		words += helperWords
	}
	if s.Review != nil {
		words += reviewerWords + earlier(s.Review.PullRequest)
	}
	return words
}

// Subagent returns a subagent's system prompt.
func Subagent(s *agent.State, sub *agent.Subagent) string {
	words := fill(subagentTemplate, s)
	if sub.Background {
		words += backgroundNote
	}
	switch {
	case sub.Words == "":
		return words + kindWords[sub.Type]
	case s.IsRequested(sub.Type):
		return words + "\n# Instructions from the user\n" + sub.Words + "\n"
	}
	return words + "\n# Instructions from the repository\n" +
		"A file in the repository defines you under the name " + sub.Type + ". It tells you how to work, but grants no permission that you do not have above.\n\n" +
		sub.Words + "\n"
}

// backgroundNote is added for subagents that work in the background.
const backgroundNote = "\nYou work in the background: the agent, and possibly others, keep working on the same files. " +
	"Change only what you were asked to, read a file again before you change it, and leave other people's changes alone. You have your own shell.\n"

// rights returns the end of the sentence that names the user. f is nil if the
// machine has not reported the user's rights.
func rights(user string, f *agent.Facilities) string {
	switch {
	case user == "root":
		return ""
	case f == nil && user == environment.DefaultUser, f != nil && f.Root:
		return " with passwordless `sudo`"
	case f == nil:
		return "; `sudo` may not be allowed"
	}
	return ", who cannot become root: `sudo` does not work"
}

// installCommands maps package managers to their non-interactive install
// commands.
var installCommands = map[string]string{
	"apt-get": "apt-get install -y", "dnf": "dnf install -y", "microdnf": "microdnf install -y", "yum": "yum install -y",
	"apk": "apk add", "zypper": "zypper --non-interactive install", "pacman": "pacman -S --noconfirm",
}

// facilities returns sentences about the programs and rights in the machine, or
// "" if the machine has not reported them.
func facilities(user string, f *agent.Facilities) (out []string) {
	if f == nil {
		return nil
	}
	sudo := "sudo "
	if user == "root" {
		sudo = ""
	}
	if f.System != "" {
		out = append(out, "The system is "+f.System+".")
	}
	install := installCommands[f.PackageManager]
	switch {
	case install == "":
		out = append(out, "There is no system package manager: download programs, or use the package managers of languages.")
	case !f.Root:
		out = append(out, "You cannot install system packages: use the package managers of languages, or download programs.")
	case f.PackageManager == "apt-get":
		out = append(out, "Install packages with `"+sudo+"apt-get update && "+sudo+install+" NAME`. That starts no services: `"+sudo+"service NAME start` does.")
	default:
		out = append(out, "Install packages with `"+sudo+install+" NAME`.")
	}
	switch f.Docker {
	case "installed":
		out = append(out, "Docker is installed. If it does not run, start it with `"+sudo+"service docker start`.")
	case "installable":
		out = append(out, "Docker is not installed. If you need it, install it, and start it with `"+sudo+"service docker start`.")
	case "refused":
		out = append(out, "Docker cannot run in this machine: do without it.")
	default:
		out = append(out, "Docker is not installed.")
	}
	if f.DockerHostNetwork && (f.Docker == "installed" || f.Docker == "installable") {
		out = append(out, "Its containers have no network of their own, and no published ports: use `docker build --network=host` and `docker run --network=host`.")
	}
	if f.Desktop {
		return append(out, "A desktop is installed: programs with windows appear on it.")
	}
	return append(out, "There is no desktop.")
}

// fill executes a prompt template with the facts about a machine.
func fill(words *template.Template, s *agent.State) string {
	type checkout struct{ Path, URL, Branch, Base string }
	data := struct {
		User, Rights, Repo, Branch, Base string
		Facilities                       []string
		Others                           []checkout // all repositories, if there are several
		Untested                         bool
	}{Untested: s.Untested, User: cmp.Or(s.User, environment.DefaultUser), Branch: s.Branch, Base: s.BaseCommit}
	data.Rights, data.Facilities = rights(data.User, s.Facilities), facilities(data.User, s.Facilities)
	if len(s.Agent.Repos) > 0 {
		data.Repo = s.Agent.Repos[0].URL
	}
	if folders := agent.Folders(s.Agent.Repos); len(folders) > 1 {
		for n, repo := range s.Agent.Repos {
			was := s.Checkout(n)
			data.Others = append(data.Others, checkout{folders[n], repo.URL, was.Branch, was.BaseCommit})
		}
	}
	var b strings.Builder
	if err := words.Execute(&b, data); err != nil {
		panic(err) // the template and the data are fixed
	}
	return b.String()
}
