package agent

import "cmp"

// WorkRecord is the part of a journal about the agent's repositories and
// branches.
type WorkRecord struct {
	Branch     string     // the branch to push; "" before the machine was ready if Created named none
	BaseCommit string     // where the branch starts, as the machine reports
	Pushed     bool       // the branch has been pushed
	Others     []Checkout // the repositories except the first, whose checkout is in Branch, BaseCommit and Pushed
	Unhooked   []string   // why commits and pushes skipped the project's git hooks, in all runs
}

// apply folds one more event of an agent with these repositories.
func (w *WorkRecord) apply(body Body, repos []Repo) {
	switch b := body.(type) {
	case *Created:
		w.Branch = b.Branch
	case *MachineReady:
		w.BaseCommit = cmp.Or(w.BaseCommit, b.BaseCommit)
		w.Branch = cmp.Or(b.Branch, w.Branch)
		for i, other := range b.Others {
			if i == len(w.Others) {
				w.Others = append(w.Others, Checkout{})
			}
			w.Others[i].BaseCommit = cmp.Or(w.Others[i].BaseCommit, other.BaseCommit)
			w.Others[i].Branch = cmp.Or(other.Branch, w.Others[i].Branch)
		}
	case *Committed:
		w.Unhooked = unhooked(w.Unhooked, b.Unhooked)
	case *Pushed:
		w.Unhooked = unhooked(w.Unhooked, b.Unhooked)
		w.pushed(b.RepoURL, repos)
	}
}

// pushed marks the repository with the URL as pushed. If no repository in Others has
// that URL, it marks the first repository.
func (w *WorkRecord) pushed(url string, repos []Repo) {
	for i, r := range repos {
		if i > 0 && i <= len(w.Others) && r.URL == url {
			w.Others[i-1].Pushed = true
			return
		}
	}
	w.Pushed = true
}

// Checkout returns where the work in the agent's n-th repository starts: the
// base commit and the branch. n counts from 0. The result is empty until the
// machine is ready.
func (w *WorkRecord) Checkout(n int) Checkout {
	switch {
	case n == 0:
		return Checkout{w.BaseCommit, w.Branch, w.Pushed}
	case n <= len(w.Others):
		return w.Others[n-1]
	}
	return Checkout{}
}
