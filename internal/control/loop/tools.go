package loop

import (
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/loop/memo"
	"aloft/internal/control/loop/task"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// tools returns the tools that the model may call.
func (t *thread) tools(s *agent.State) []tool.Spec {
	specs := slices.DeleteFunc(slices.Clone(t.offered(s)), func(spec tool.Spec) bool { return !t.permits(spec.Name) })
	if t.task != "" {
		sub := s.Subagent(t.task)
		return slices.DeleteFunc(specs, func(spec tool.Spec) bool { return !task.MayUse(sub, spec) })
	}
	specs = slices.DeleteFunc(specs, func(spec tool.Spec) bool { return spec.Name == task.ComputerUse })
	for i := range specs {
		if specs[i].Name == agent.TaskTool {
			specs[i] = task.WithSubagents(specs[i], t.subagents(), t.defined())
		}
	}
	return specs
}

// withheld returns the message for a model whose call uses a tool that its
// conversation does not have, or "" if it has the tool.
func (t *thread) withheld(spec tool.Spec) string {
	if needs := t.unconfigured(spec.Name); needs != "" {
		return spec.Name + " is not available: needs " + needs
	}
	if why := task.Unavailable(t.state(), spec.Name); why != "" {
		return why
	}
	switch {
	case t.task == agent.ChecksThread:
		return ""
	case !t.permits(spec.Name):
		return spec.Name + " is not available: the automation that started this agent does not permit it"
	case t.task != "":
	case spec.Name == task.ComputerUse:
		return "ComputerUse is only for the subagent computerUse: use Task to describe what to do on the desktop"
	default:
		return ""
	}
	sub := t.state().Subagent(t.task)
	switch {
	case task.MayUse(sub, spec):
		return ""
	case sub.Type == subagent.ComputerUse:
		return spec.Name + " is not available: this subagent can only use the desktop"
	case sub.ReadOnly && !spec.ReadOnly:
		return spec.Name + " is not available: this subagent only reads"
	}
	return spec.Name + " is not available to subagents"
}

// permits reports whether the agent may use the tool.
func (t *thread) permits(name string) bool { return t.Tools.Permits == nil || t.Tools.Permits(name) }

// unconfigured returns the setting without which a tool cannot work, or "" if
// none is missing.
func (t *thread) unconfigured(name string) string {
	if name == searchWeb && t.Tools.Web == nil {
		return "a search provider in the server's configuration (web_search)"
	}
	if name == paintImage && t.Tools.Images == nil {
		return "a model for images in the server's configuration (image_model)"
	}
	if name == memo.Tool {
		return t.memo.Needs()
	}
	return ""
}

// subagents returns Aloft's own subagents that are usable. Those that look at
// images need a model that accepts images.
func (t *thread) subagents() []subagent.Definition {
	_, fast, err := t.findModel(subagent.Fast)
	sees := t.info.Images || err == nil && fast.Images
	return slices.DeleteFunc(slices.Clone(subagent.Offered), func(d subagent.Definition) bool { return d.Looks() && !sees })
}

// defined returns the subagents that only some agents have: the desktop
// subagent, if the machine has a desktop, and those that users and repositories
// define.
func (t *thread) defined() []subagent.Definition {
	others := t.state().Definitions()
	if slices.Contains(t.lacks, task.ComputerUse) {
		return others
	}
	return append([]subagent.Definition{subagent.OnDesktop}, others...)
}

// workable returns the tools that work in the machine and on this server. It
// includes PrManagement only if one of the agent's repositories has a forge.
func (t *thread) workable(s *agent.State) []tool.Spec {
	able := t.Pulls != nil && slices.ContainsFunc(s.Agent.Repos, func(r agent.Repo) bool { return t.Pulls.Can(r.URL) == nil })
	return slices.DeleteFunc(slices.Clone(tool.Catalogue()), func(spec tool.Spec) bool {
		return spec.Name == task.ManagePull && !able || task.Unavailable(s, spec.Name) != "" || t.unconfigured(spec.Name) != "" || slices.Contains(t.lacks, spec.Name)
	})
}
