package compact

import (
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/rulebook"
	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// Maximum sizes of the parts that a compaction keeps, as fractions of the
// context window (10 is a tenth). With the tail they take less than four fifths
// of the window, so a compaction always frees space.
const (
	promptShare  = 10 // prompts
	imageShare   = 10 // their images
	ruleShare    = rulebook.Share
	todoShare    = 40 // the todo list
	fileShare    = 40 // names of changed files
	summaryShare = 5  // the summary, at most
)

// imageTokens is the estimated size of an image.
const imageTokens = 1600

// remembered returns the parts of the conversation that a compaction keeps
// unchanged, within their shares of a context window of the given number of
// tokens. left is the number of images that are dropped.
func remembered(s *agent.State, task string, window int64, left int) string {
	room := func(share int64) int { return int(window/share) * CharsPerToken }
	asked, who, plan := s.Asked, "The user's requests", s.Mode == agent.ModePlan
	if task != "" {
		asked, who, plan = s.Subagent(task).Asked, "Your task", false
	}
	var b strings.Builder
	b.WriteString("This is kept verbatim in addition to the summary.\n")
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n# %s\n%s\n", title, strings.TrimRight(text, "\n"))
		}
	}
	requests := quotePrompts(asked, room(promptShare))
	if left > 0 {
		requests += fmt.Sprintf("[%d images from the requests omitted]\n", left)
	}
	section(who, requests)
	if plan {
		section("The mode", agent.PlanWords)
	}
	section("The todo list, from TodoWrite", listTodos(s.Todos, room(todoShare)))
	given, more := keptRules(s, room(ruleShare))
	section("Rules for the work, as they were given; they grant no permissions", given)
	section("Project rules that you have read, which guide the work but grant no permissions", quoteRules(more, room(ruleShare)-len(given)))
	section("Files changed by your tools", listFiles(s.Files, room(fileShare)))
	return b.String()
}

// quotePrompts quotes the first prompt and the latest ones in at most room
// bytes. Marks around the quotations do not count. If they do not fit, it cuts
// out the middle of long prompts, and omits prompts between the first and the
// latest.
func quotePrompts(asked []string, room int) string {
	if len(asked) == 0 {
		return ""
	}
	last := len(asked) - 1
	quoted := make([]string, len(asked))
	quote := func(i, most int) {
		quoted[i] = Cut(asked[i], most)
		room -= min(len(asked[i]), most)
	}
	if last > 0 {
		quote(last, max(room/2, room-len(asked[0])))
	}
	quote(0, room)
	from := last
	for from > 1 && len(asked[from-1]) <= room {
		from--
		quoted[from] = asked[from]
		room -= len(asked[from])
	}
	var b strings.Builder
	for i, text := range quoted {
		switch {
		case i > 0 && i < from:
			if i == 1 {
				fmt.Fprintf(&b, "[requests 2 to %d omitted]\n", from)
			}
		case text != "":
			fmt.Fprintf(&b, "<request number=\"%d\">\n%s\n</request>\n", i+1, text)
		}
	}
	return b.String()
}

// maxTodoText is the maximum length of one todo item, in bytes.
const maxTodoText = 500

// listTodos lists the todo items in at most room bytes. Completed items are
// left out first.
func listTodos(todos []agent.Todo, room int) string {
	var lines []string
	write := func(keep func(agent.Todo) bool) (size int) {
		lines = nil
		for _, todo := range todos {
			if keep(todo) {
				lines = append(lines, fmt.Sprintf("[%s] %s: %s\n", todo.Status, Cut(todo.ID, maxTodoText), Cut(todo.Content, maxTodoText)))
				size += len(lines[len(lines)-1])
			}
		}
		return size
	}
	if write(func(agent.Todo) bool { return true }) > room {
		write(func(todo agent.Todo) bool { return todo.Status == "pending" || todo.Status == "in_progress" })
	}
	var b strings.Builder
	listed := 0
	for ; listed < len(lines) && b.Len()+len(lines[listed]) <= room; listed++ {
		b.WriteString(lines[listed])
	}
	if listed < len(todos) {
		fmt.Fprintf(&b, "[%d of %d items omitted]\n", len(todos)-listed, len(todos))
	}
	return b.String()
}

// quoteRules quotes the rules in at most room bytes. Marks around the
// quotations do not count. The most recently read come first; only the names of
// those that do not fit are listed.
func quoteRules(rules []agent.Rule, room int) string {
	var b strings.Builder
	for _, r := range slices.Backward(rules) {
		if len(r.Text) > room {
			fmt.Fprintf(&b, "[%s omitted: read it again]\n", r.Source)
			continue
		}
		room -= len(r.Text)
		fmt.Fprintf(&b, "<rules source=%q>\n%s\n</rules>\n", r.Source, strings.TrimRight(r.Text, "\n"))
	}
	return b.String()
}

// listFiles lists the most recently changed files in at most room bytes.
func listFiles(files []string, room int) string {
	from := len(files)
	for from > 0 && len(files[from-1]) < room {
		from--
		room -= len(files[from]) + 1
	}
	list := strings.Join(files[from:], "\n")
	if from > 0 {
		list = fmt.Sprintf("[%d files changed earlier are omitted: see `git status`]\n", from) + list
	}
	return list
}

// keptImages returns the indexes of the prompt images to keep: the first and
// the latest.
func keptImages(messages []conversation.Message, most int) []int {
	n := len(agent.PromptImages(messages))
	var kept []int
	for i := range n {
		if n <= most || i < (most+1)/2 || i >= n-most/2 {
			kept = append(kept, i)
		}
	}
	return kept
}

// keptRules returns the rules that a compaction keeps, in at most room bytes.
// Marks around the quotations do not count. given quotes the rules that the
// server gave to the model, and lists those that the model may read. more are
// the instructions that the model has read itself.
func keptRules(s *agent.State, room int) (given string, more []agent.Rule) {
	rules := slices.Clone(s.Applied)
	rule.Order(rules)
	fit, left := rule.Fit(rules, room)
	var b strings.Builder
	for _, r := range fit {
		if r.Text != "" {
			b.WriteString(r.Quote(agent.Workspace))
		}
	}
	b.WriteString(rule.Offer(agent.Workspace, fit))
	for _, l := range left {
		fmt.Fprintf(&b, "[%s omitted: %s]\n", l.Source, l.Why)
	}
	for _, r := range s.Rules {
		if !slices.ContainsFunc(fit, func(f rule.Rule) bool {
			return f.Text != "" && f.From == rule.Repository && f.Source == rulebook.InWorkspace(r.Source)
		}) {
			more = append(more, r)
		}
	}
	return b.String(), more
}
