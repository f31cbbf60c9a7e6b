package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Folder is a folder whose rules are read, without the rules of its subfolders. Both
// paths are relative to the workspace.
type Folder struct {
	Repository string // root of its repository; "" is the workspace
	Path       string
}

// Admit returns the acceptable part of the rules that a machine reports for the folders.
// The machine is not trusted to respect the limits, or to report only the requested
// folders.
func Admit(folders []Folder, received Set) (ok Set) {
	refused, room, cost := 0, MaxTotal, 0
	for _, r := range received.Rules {
		at := slices.IndexFunc(folders, func(f Folder) bool { return f.Path == r.Folder })
		kind := slices.Contains([]Kind{Plain, Skill, Command}, r.Kind)
		known := slices.Contains([]When{Always, OnFiles, OnRequest, OnMention}, r.When)
		source := path.Clean(r.Source) == r.Source && r.Source != "." && len(r.Source) <= maxSource && !strings.HasPrefix(r.Source, "../") && !path.IsAbs(r.Source)
		if at < 0 || !known || !kind || (r.Text == "") != (r.Kind == Skill) || !source || len(ok.Rules) == MaxRules || len(r.Text) > min(room, MaxText) {
			refused++
			continue
		}
		room -= len(r.Text)
		r.From, r.Nested = Repository, folders[at].Path != folders[at].Repository
		r.Text, _ = Visible(strings.ToValidUTF8(r.Text, "\uFFFD"))
		r.Source, r.Description, r.Label = oneLine(r.Source, maxSource), oneLine(r.Description, maxDescription), oneLine(r.Label, maxName)
		r.Globs = slices.DeleteFunc(slices.Clone(r.Globs), func(g string) bool { return len(g) > maxGlob })
		r.Globs = r.Globs[:min(len(r.Globs), maxGlobs)]
		for i, g := range r.Globs {
			r.Globs[i] = oneLine(g, maxGlob)
			cost += globCost(r.Globs[i])
		}
		if cost > maxGlobCost {
			r.Globs = nil
			ok.LeftOut = append(ok.LeftOut, LeftOut{Source: r.Source, Why: "the rules have too many globs in total; those of this one were ignored"})
		}
		r.Imports = slices.Clone(r.Imports[:min(len(r.Imports), maxImports)])
		for i, file := range r.Imports {
			r.Imports[i] = oneLine(file, maxSource)
		}
		ok.Rules = append(ok.Rules, r)
	}
	for _, l := range received.LeftOut[:min(len(received.LeftOut), MaxLeftOut+1)] {
		ok.LeftOut = append(ok.LeftOut, LeftOut{Source: oneLine(l.Source, maxSource), Why: oneLine(l.Why, maxSource)})
	}
	if refused > 0 {
		ok.LeftOut = append(ok.LeftOut, LeftOut{Why: fmt.Sprintf("%d rules that the machine sent are not valid", refused)})
	}
	return ok
}
