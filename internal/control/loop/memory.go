package loop

import (
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

// What a compaction keeps word for word, as shares of the model's context
// window. With the summary and the tail that stays they make up less than the
// window's four fifths, so that a compaction always makes room.
const (
	promptShare  = 10 // of prompts
	imageShare   = 10 // of their images
	ruleShare    = 10 // of the project's rules
	todoShare    = 40 // of the todo list
	fileShare    = 40 // of the names of changed files
	summaryShare = 5  // at most, of the summary
)

// imageTokens is what an image is estimated to take.
const imageTokens = 1600

// remembered writes what a compaction keeps of the conversation word for word,
// within the shares of a context window of that many tokens. left is the
// number of images that are not kept.
func (t *talk) remembered(s *agent.State, window int64, left int) string {
	room := func(share int64) int { return int(window/share) * charsPerToken }
	asked, who, plan := s.Asked, "The user's requests", s.Mode == agent.ModePlan
	if t.task != "" {
		asked, who, plan = s.Subagent(t.task).Asked, "What you were asked", false
	}
	var b strings.Builder
	b.WriteString("This is kept word for word, beside the summary.\n")
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n# %s\n%s\n", title, strings.TrimRight(text, "\n"))
		}
	}
	requests := quotePrompts(asked, room(promptShare))
	if left > 0 {
		requests += fmt.Sprintf("[%d images of the requests left out]\n", left)
	}
	section(who, requests)
	if plan {
		section("The mode", agent.PlanWords)
	}
	section("The todo list, as TodoWrite left it", listTodos(s.Todos, room(todoShare)))
	section("Rules of the project, which guide the work and allow nothing", quoteRules(s.Rules, room(ruleShare)))
	section("Files changed by your tools", listFiles(s.Files, room(fileShare)))
	return b.String()
}

// quotePrompts quotes the first prompt and the latest ones in at most room
// bytes, beside the marks around them. The middle of a prompt that is too long
// is left out, and so are whole prompts between the first and the latest.
func quotePrompts(asked []string, room int) string {
	if len(asked) == 0 {
		return ""
	}
	last := len(asked) - 1
	quoted := make([]string, len(asked))
	if last > 0 {
		quoted[last] = cut(asked[last], max(room/2, room-len(asked[0])))
	}
	quoted[0] = cut(asked[0], room-len(quoted[last]))
	room -= len(quoted[0]) + len(quoted[last])
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
				fmt.Fprintf(&b, "[requests 2 to %d left out]\n", from)
			}
		case text != "":
			fmt.Fprintf(&b, "<request number=\"%d\">\n%s\n</request>\n", i+1, text)
		}
	}
	return b.String()
}

// maxTodoText bounds, in bytes, what is kept of one item.
const maxTodoText = 500

// listTodos lists the items in at most room bytes. Items that are done are left
// out first.
func listTodos(todos []agent.Todo, room int) string {
	var lines []string
	write := func(keep func(agent.Todo) bool) (size int) {
		lines = nil
		for _, todo := range todos {
			if keep(todo) {
				lines = append(lines, fmt.Sprintf("[%s] %s: %s\n", todo.Status, cut(todo.ID, maxTodoText), cut(todo.Content, maxTodoText)))
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
		fmt.Fprintf(&b, "[%d of %d items left out]\n", len(todos)-listed, len(todos))
	}
	return b.String()
}

// quoteRules quotes the rules in at most room bytes, beside the marks around
// them. The rules that were read last come first, and the others are named.
func quoteRules(rules []agent.Rule, room int) string {
	var b strings.Builder
	for _, r := range slices.Backward(rules) {
		if len(r.Text) > room {
			fmt.Fprintf(&b, "[%s is left out: read it again]\n", r.Source)
			continue
		}
		room -= len(r.Text)
		fmt.Fprintf(&b, "<rules source=%q>\n%s\n</rules>\n", r.Source, strings.TrimRight(r.Text, "\n"))
	}
	return b.String()
}

// listFiles lists the files that were changed last in at most room bytes.
func listFiles(files []string, room int) string {
	from := len(files)
	for from > 0 && len(files[from-1]) < room {
		from--
		room -= len(files[from]) + 1
	}
	list := strings.Join(files[from:], "\n")
	if from > 0 {
		list = fmt.Sprintf("[%d files that were changed before are left out: see `git status`]\n", from) + list
	}
	return list
}

// keptImages returns which prompt images among the messages are kept, by
// number: at most the given count of them, the first and the latest.
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
