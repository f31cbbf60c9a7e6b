// Package automation starts agents without a person's request: on a schedule,
// on events of other services, or by hand from a prepared prompt.
//
// A [Spec] describes an automation. It comes from the API or from a file in
// .aloft/automations of a repository's default branch. The [Desk] decides when
// an automation starts, and follows each start to the end of its agent's run.
//
// Each start has an id that derives from the automation and its cause: the
// scheduled time, the event, or the request. The start and everything that
// follows from it are recorded before the next step, and the ids of the agent
// and its run derive from the start, too. So repeated events, several servers,
// and a server that dies at any point never start an agent twice.
//
// Events are untrusted. Filters have a limit on their cost, and prompts quote
// values of events.
package automation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones of schedules must not depend on the host

	"github.com/google/uuid"

	"aloft/internal/allowance"
	"aloft/internal/fault"
	"aloft/internal/policy"
	"aloft/internal/tool"
)

// Spec is what a person writes to define an automation. Its JSON form is also
// the form of the files in a repository, which are YAML.
type Spec struct {
	Name        string   `json:"name" maxLength:"100"`
	Description string   `json:"description,omitempty" maxLength:"1000"`
	On          Trigger  `json:"on,omitzero" doc:"what starts it besides people; default nothing"`
	Inputs      []Input  `json:"inputs,omitempty" maxItems:"20" nullable:"false"`
	Prompt      string   `json:"prompt" doc:"may contain expressions in CEL, such as {{ inputs.version }} or {{ event.number }}"`
	Repository  string   `json:"repository,omitempty" doc:"URL of the repository; in a file, it is the file's repository"`
	StartingRef string   `json:"startingRef,omitempty" doc:"branch or commit from which agents start; default the default branch"`
	PullRequest bool     `json:"pullRequest,omitempty" doc:"open a pull request if the agent has pushed commits"`
	Model       string   `json:"model,omitempty"`
	Environment string   `json:"environment,omitempty" doc:"name of a saved environment"`
	Tools       []string `json:"tools,omitempty" maxItems:"100" nullable:"false" doc:"the only tools that its agents may use; default all"`
	Network     *Network `json:"network,omitempty" doc:"further restricts the network of its agents' machines"`
	Concurrency string   `json:"concurrency,omitempty" enum:"skip,queue,replace" doc:"what happens to a start while an earlier one works; default skip"`
	Budget      *Budget  `json:"budget,omitempty"`
	PauseAfter  *int     `json:"pauseAfter,omitempty" minimum:"0" maximum:"100" doc:"failed starts in a row after which it is paused; default 3, 0 is never"`
	Memory      int      `json:"memory,omitempty" minimum:"0" maximum:"10" doc:"how many results of earlier starts its prompt contains; default 0"`
}

// Trigger says what starts an automation. At most one field is set.
type Trigger struct {
	Schedule *Schedule `json:"schedule,omitempty"`
	Event    *OnEvent  `json:"event,omitempty"`
}

// Schedule starts an automation at certain times.
type Schedule struct {
	Cron     string `json:"cron" doc:"five fields, such as 0 3 * * 1-5"`
	TimeZone string `json:"timeZone,omitempty" doc:"such as Europe/Berlin; default UTC"`
	Jitter   string `json:"jitter,omitempty" doc:"longest random delay, such as 10m; default none"`
	Missed   string `json:"missed,omitempty" enum:"skip,catch-up" doc:"what happens to times at which no server was running; catch-up starts once for all of them; default skip"`
}

// OnEvent starts an automation on events of its repository, or of a connection.
type OnEvent struct {
	Connection string `json:"connection,omitempty" doc:"name of the connection that must have received the event; required for events without a repository"`
	Filter     string `json:"filter,omitempty" doc:"expression in CEL that must be true, such as event.kind == 'check' && event.branch == 'main'; default all events"`
}

// Input is a value that people provide when they start an automation.
type Input struct {
	Name        string   `json:"name" pattern:"^[a-z][a-zA-Z0-9_]{0,49}$"`
	Type        string   `json:"type,omitempty" enum:"string,number,boolean,choice" doc:"default string"`
	Description string   `json:"description,omitempty" maxLength:"500"`
	Required    bool     `json:"required,omitempty"`
	Default     any      `json:"default,omitempty"`
	Options     []string `json:"options,omitempty" maxItems:"50" nullable:"false" doc:"the values of a choice"`
}

// Network restricts the network of an automation's agents. It never permits
// more than the server, the team and the environment do.
type Network struct {
	Mode  string   `json:"mode" enum:"none,list" doc:"none permits only the git server; list permits the hosts in allow, too"`
	Allow []string `json:"allow,omitempty" maxItems:"200" nullable:"false" doc:"domains, *.domains, addresses and ranges"`
}

// Budget limits the usage of an automation.
type Budget struct {
	Turns          int64   `json:"turns,omitempty" minimum:"0" doc:"of each start"`
	Tokens         int64   `json:"tokens,omitempty" minimum:"0" doc:"of each start"`
	Dollars        float64 `json:"dollars,omitempty" minimum:"0" doc:"of each start"`
	Minutes        int64   `json:"minutes,omitempty" minimum:"0" doc:"of each start"`
	MonthlyDollars float64 `json:"monthlyDollars,omitempty" minimum:"0" doc:"of all starts in a calendar month in UTC; needs dollars"`
}

// Values of fields of a [Spec].
const (
	Skip    = "skip" // also of Missed
	Queue   = "queue"
	Replace = "replace"
	CatchUp = "catch-up"

	String  = "string"
	Number  = "number"
	Boolean = "boolean"
	Choice  = "choice"

	NoNetwork  = "none"
	OnlyListed = "list"
)

// Limits of a spec.
const (
	MaxSpec           = 64 << 10 // bytes of its JSON or YAML
	maxPromptText     = 32 << 10
	maxInputs         = 20
	maxInputValue     = 4 << 10 // bytes
	maxMemory         = 10
	maxJitter         = time.Hour
	defaultPauseAfter = 3
	maxQueued         = 100 // starts of one automation that wait
)

var inputName = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]{0,49}$`)

// pauseAfter returns after how many failures in a row the automation is paused;
// 0 means never.
func (s Spec) pauseAfter() int {
	if s.PauseAfter == nil {
		return defaultPauseAfter
	}
	return *s.PauseAfter
}

// limit returns the limits of each start.
func (s Spec) limit() allowance.Amount {
	if s.Budget == nil {
		return allowance.Amount{}
	}
	b := *s.Budget
	return allowance.Amount{Turns: b.Turns, Tokens: b.Tokens, Cost: dollars(b.Dollars), Seconds: 60 * b.Minutes}
}

// monthly returns the limit of all starts in a month, in billionths of a
// dollar; 0 means unlimited.
func (s Spec) monthly() int64 {
	if s.Budget == nil {
		return 0
	}
	return dollars(s.Budget.MonthlyDollars)
}

func dollars(n float64) int64 { return int64(n * allowance.Dollar) }

// Check returns a fault that names the first invalid field. Its faults have the
// names of the fields in JSON.
func (s Spec) Check() error {
	switch {
	case strings.TrimSpace(s.Name) == "" || len(s.Name) > 100 || strings.ContainsFunc(s.Name, isControl):
		return fault.Invalid("must have 1 to 100 bytes and no control characters").At("name")
	case len(s.Description) > 1000:
		return fault.Invalid("has %d bytes; the limit is 1000", len(s.Description)).At("description")
	case strings.TrimSpace(s.Prompt) == "" || len(s.Prompt) > maxPromptText:
		return fault.Invalid("must have 1 to %d bytes", maxPromptText).At("prompt")
	case s.Repository == "":
		return fault.Invalid("is required").At("repository")
	case s.Concurrency != "" && !slices.Contains([]string{Skip, Queue, Replace}, s.Concurrency):
		return fault.Invalid("is %s; must be skip, queue or replace", fault.Quoted(s.Concurrency)).At("concurrency")
	case s.PauseAfter != nil && (*s.PauseAfter < 0 || *s.PauseAfter > 100):
		return fault.Invalid("must be 0 to 100").At("pauseAfter")
	case s.Memory < 0 || s.Memory > maxMemory:
		return fault.Invalid("must be 0 to %d", maxMemory).At("memory")
	}
	for _, check := range []func() error{s.checkTrigger, s.checkInputs, s.checkPrompt, s.checkRestrictions, s.checkBudget} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func (s Spec) checkTrigger() error {
	if s.On.Schedule != nil && s.On.Event != nil {
		return fault.Invalid("has a schedule and an event").Hint("define one automation for each").At("on")
	}
	if e := s.On.Event; e != nil {
		if len(e.Connection) > 64 {
			return fault.Invalid("has more than 64 bytes").At("on.event.connection")
		}
		if _, err := compileFilter(e.Filter); err != nil {
			return fault.Invalid("%v", err).At("on.event.filter")
		}
	}
	c := s.On.Schedule
	if c == nil {
		return nil
	}
	cron, err := ParseCron(c.Cron)
	if err != nil {
		return fault.Invalid("%v", err).At("on.schedule.cron")
	}
	at, err := c.location()
	if err != nil {
		return err
	}
	if _, ok := cron.Next(time.Now().In(at)); !ok {
		return fault.Invalid("names no time in the next %d years", maxYears).At("on.schedule.cron")
	}
	if _, err := c.jitter(); err != nil {
		return fault.Invalid("is %s; use a duration such as 10m, at most 1h", fault.Quoted(c.Jitter)).At("on.schedule.jitter")
	}
	if c.Missed != "" && c.Missed != Skip && c.Missed != CatchUp {
		return fault.Invalid("is %s; must be skip or catch-up", fault.Quoted(c.Missed)).At("on.schedule.missed")
	}
	for _, in := range s.Inputs {
		if in.Required && in.Default == nil {
			return fault.Invalid("needs a default: nobody provides the input %q when the schedule starts the automation", in.Name).At("inputs")
		}
	}
	return nil
}

// location returns the time zone of the schedule. The error is a fault.
func (c Schedule) location() (*time.Location, error) {
	if c.TimeZone == "" {
		return time.UTC, nil
	}
	at, err := time.LoadLocation(c.TimeZone)
	if err != nil || strings.EqualFold(c.TimeZone, "local") {
		return nil, fault.Invalid("there is no time zone %s; use a name such as Europe/Berlin", fault.Quoted(c.TimeZone)).At("on.schedule.timeZone")
	}
	return at, nil
}

func (c Schedule) jitter() (time.Duration, error) {
	if c.Jitter == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Jitter)
	if err == nil && (d < 0 || d > maxJitter) {
		err = fmt.Errorf("%s is not between 0s and %s", d, maxJitter)
	}
	return d, err
}

func (s Spec) checkRestrictions() error {
	for i, name := range s.Tools {
		if _, ok := tool.Lookup(name); !ok {
			return fault.Invalid("there is no tool %s", fault.Quoted(name)).At(fmt.Sprintf("tools[%d]", i))
		}
	}
	if s.Network == nil {
		return nil
	}
	if s.Network.Mode != NoNetwork && s.Network.Mode != OnlyListed {
		return fault.Invalid("is %s; must be none or list", fault.Quoted(s.Network.Mode)).At("network.mode")
	}
	if s.Network.Mode == NoNetwork && len(s.Network.Allow) > 0 {
		return fault.Invalid("has no effect with the mode none").Hint("use the mode list").At("network.allow")
	}
	if len(s.Network.Allow) > 200 {
		return fault.Invalid("has %d entries; the limit is 200", len(s.Network.Allow)).At("network.allow")
	}
	if _, err := (policy.Network{Mode: policy.List, Allow: s.Network.Allow}).Compile(); err != nil {
		return fault.Invalid("%v", err).At("network.allow")
	}
	return nil
}

func (s Spec) checkBudget() error {
	b := s.Budget
	if b == nil {
		return nil
	}
	const most = 1e6 // keeps amounts far below the limits of int64
	if b.Turns < 0 || b.Tokens < 0 || b.Minutes < 0 || b.Minutes > 60*24*30 || !(b.Dollars >= 0 && b.Dollars <= most) || !(b.MonthlyDollars >= 0 && b.MonthlyDollars <= most) {
		return fault.Invalid("must have positive amounts, at most 1000000 dollars and 30 days").At("budget")
	}
	if b.MonthlyDollars > 0 && (b.Dollars == 0 || b.Dollars > b.MonthlyDollars) {
		return fault.Invalid("needs dollars, at most as much: what a start may cost is reserved while its agent works").At("budget.monthlyDollars")
	}
	return nil
}

// ID returns the id of the automation that a file of a repository defines.
func ID(repo, path string) string { return "auto-" + derived("file", repo, path).String() }

// NewID returns the id of a new automation.
func NewID() string { return "auto-" + uuid.NewString() }

// StartID returns the id of the start of an automation with the given cause.
func StartID(automationID, trigger, cause string) string {
	return "start-" + derived(automationID, trigger, cause).String()
}

// derived returns an id that depends only on the words.
func derived(words ...string) uuid.UUID {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	var id uuid.UUID
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|8<<4, id[8]&0x3f|0x80
	return id
}

// Decode returns the spec of a stored automation.
func Decode(data json.RawMessage) (s Spec, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read the spec of an automation: %w", err)
	}
	return s, nil
}
