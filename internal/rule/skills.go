package rule

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// SkillsFile is the name under which the server stores the skills of the team
// and of each user.
const SkillsFile = "skills.md"

// SkillsFolder is the folder in the machine into which the server puts stored skills,
// each in its own folder.
const SkillsFolder = "/tmp/aloft-skills"

// MaxSkills is how many skills the team, or a user, can have.
const MaxSkills = 50

// skillName matches the names of stored skills. They are also folder names.
var skillName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// ParseSkills parses a [SkillsFile]: one SKILL.md after the other. A skill begins with a
// line --- that is followed by a line with its name. The Text of each rule is the whole
// SKILL.md.
func ParseSkills(from From, text string) (skills []Rule, complaints []string, err error) {
	text, hidden := Visible(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
	if hidden > 0 {
		complaints = append(complaints, fmt.Sprintf("has %d invisible characters, which were removed", hidden))
	}
	seen := map[string]bool{}
	for _, file := range splitSkills(strings.TrimSpace(text)) {
		r, said, ok := ParseSkill(SkillsFile, "", file)
		switch {
		case !skillName.MatchString(r.Label):
			return nil, complaints, fmt.Errorf("the name of a skill is %.80q: begin each skill with ---, then name: and lower-case letters, digits and hyphens", r.Label)
		case !ok:
			return nil, complaints, fmt.Errorf("skill %s: %s", r.Label, said[len(said)-1])
		case seen[r.Label]:
			return nil, complaints, fmt.Errorf("there are two skills with the name %s", r.Label)
		case len(skills) == MaxSkills:
			return nil, complaints, fmt.Errorf("there are more than %d skills", MaxSkills)
		}
		for _, c := range said {
			complaints = append(complaints, "skill "+r.Label+": "+c)
		}
		seen[r.Label] = true
		r.From, r.Source, r.Text = from, path.Join(SkillsFile, r.Label), file+"\n"
		skills = append(skills, r)
	}
	return skills, complaints, nil
}

// splitSkills splits a [SkillsFile] into the files of its skills.
func splitSkills(text string) (files []string) {
	lines := strings.Split(text, "\n")
	start := 0
	for i := 1; i+1 < len(lines); i++ {
		if lines[i] == "---" && strings.HasPrefix(lines[i+1], "name:") {
			files = append(files, strings.TrimSpace(strings.Join(lines[start:i], "\n")))
			start = i
		}
	}
	return append(files, strings.TrimSpace(strings.Join(lines[start:], "\n")))
}

// DraftFile is the name under which the server stores skills of the team that are not
// published yet.
const DraftFile = "skills-draft.md"

// draftMark is the end of the name of a skill that is not published.
const draftMark = "-draft"

// Drafts returns the skills as drafts: agents get a draft only if a prompt mentions it as
// /NAME-draft.
func Drafts(skills []Rule) []Rule {
	drafts := slices.Clone(skills)
	for i := range drafts {
		d := &drafts[i]
		d.Label, d.When, d.Globs = d.Label+draftMark, OnMention, nil
		d.Source, d.Description = path.Join(DraftFile, d.Label), "(draft) "+d.Description
	}
	return drafts
}

// MaxVersions is how many versions of the team's skills are kept.
const MaxVersions = 20

// A Version is a text of a [SkillsFile], from the time at which it was published.
type Version struct {
	Since  time.Time `json:"since"`
	UserID int64     `json:"userId"` // who published it
	Text   string    `json:"text"`
}

// WithVersion returns the versions with a new one, at most [MaxVersions]. The latest
// version is the last. If v has the text of the latest, the versions stay as they are.
func WithVersion(versions []Version, v Version) []Version {
	if n := len(versions); n > 0 && versions[n-1].Text == v.Text {
		return versions
	}
	all := append(slices.Clone(versions), v)
	return all[max(0, len(all)-MaxVersions):]
}
