package checkout

import (
	"regexp"
	"strings"
)

// Codes of a [Failure].
const (
	CodeRepoNotFound = "repo_not_found"
	CodeRefNotFound  = "ref_not_found"
	CodeBranchTaken  = "branch_taken"
	CodeNoCommit     = "no_commit"
	CodeDenied       = "denied"
	CodeUnavailable  = "unavailable"
	CodeDiskFull     = "disk_full"
	CodeSecretInPush = "secret_in_push"
	CodeHookFailed   = "hook_failed" // a hook of the project; Detail is its output
	CodeNoPrograms   = "no_programs" // Detail names the programs that the machine lacks
	CodeInternal     = "internal"
)

// Failure is an error that git reported: its kind, and git's last messages.
type Failure struct {
	Code   string
	Detail string // limited in length, valid UTF-8, without the credential
}

func (f *Failure) Error() string { return f.Code + ": " + f.Detail }

// failure determines the kind of an error from git's last messages.
func (r *Repository) failure(words *tail) *Failure {
	output := words.lines()
	if r.Secret != "" {
		output = strings.ReplaceAll(output, r.Secret, "***")
	}
	code := classify(output)
	if r.Gateway != "" {
		// Users know the forge's address, not the gateway's.
		output = regexp.MustCompile(regexp.QuoteMeta(r.Gateway)+`/([a-z]+)/`).ReplaceAllString(output, "$1://")
	}
	return &Failure{Code: code, Detail: output}
}

// signs are messages of git 2.x in the C locale, checked in this order; the
// first match decides. git includes the HTTP status of the gateway's responses.
var signs = []struct {
	code string
	sign *regexp.Regexp
}{
	{CodeSecretInPush, regexp.MustCompile(`\(secret in push\)`)},
	{CodeDiskFull, regexp.MustCompile(`No space left on device|Disk quota exceeded|disk quota exceeded`)},
	{CodeBranchTaken, regexp.MustCompile(`! \[rejected\]|\[remote rejected\].*(reference already exists|cannot lock ref|failed to update ref)|non-fast-forward`)},
	{CodeNoCommit, regexp.MustCompile(`src refspec \S+ does not match any`)},
	{CodeDenied, regexp.MustCompile(`returned error: 40[137]|HTTP 40[137]|Authentication failed|could not read (Username|Password)|Permission denied|\[remote rejected\]|access denied`)},
	{CodeRefNotFound, regexp.MustCompile(`Remote branch .* not found|couldn't find remote ref|did not match any file\(s\) known to git|not our ref|bad object|unknown revision`)},
	{CodeRepoNotFound, regexp.MustCompile(`returned error: 4(04|10)|HTTP 404|[Rr]epository '.*' not found|remote: Repository not found|does not appear to be a git repository|repository '.*' does not exist`)},
	{CodeUnavailable, regexp.MustCompile(`returned error: (5\d\d|429|408)|HTTP 5\d\d|Could not resolve host|Connection refused|Failed to connect|[Cc]onnection (was )?reset|Recv failure|Empty reply|timed out|Operation too slow|early EOF|unexpected disconnect|the remote end hung up|RPC failed|transfer closed|GnuTLS|SSL`)},
}

func classify(output string) string {
	for _, s := range signs {
		if s.sign.MatchString(output) {
			return s.code
		}
	}
	return CodeInternal
}
