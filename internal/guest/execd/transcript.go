package execd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"aloft/internal/wire/agentv1"
)

// transcripts is where hooks find what has been said, below the home folder.
const transcripts = ".aloft/transcripts"

// plainID matches what can be the name of a file.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// transcript writes what is new of the conversation, and returns the file and its
// size; "" where it cannot be written, which is no reason not to run hooks. The
// home folder is the agent's, and no link in it is followed out of it.
func (s *Server) transcript(m *agentv1.RunHooksRequest) (name string, size int64) {
	if s.home == "" || !plainID.MatchString(m.GetConversationId()) {
		return "", 0
	}
	size, err := s.writeTranscript(m)
	if err != nil {
		s.log.Warn("the hooks' transcript was not written", "error", err)
		return "", 0
	}
	return filepath.Join(s.home, transcripts, m.GetConversationId()+".jsonl"), size
}

func (s *Server) writeTranscript(m *agentv1.RunHooksRequest) (size int64, err error) {
	s.transcripts.Lock()
	defer s.transcripts.Unlock()
	home, err := os.OpenRoot(s.home)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, home.Close()) }()
	if err := home.MkdirAll(transcripts, 0o700); err != nil {
		return 0, err
	}
	f, err := home.OpenFile(transcripts+"/"+m.GetConversationId()+".jsonl", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fs.ErrInvalid
	}
	if len(m.GetTranscript()) == 0 || m.GetTranscriptAt() != 0 && m.GetTranscriptAt() != info.Size() {
		return info.Size(), nil
	}
	if err := f.Truncate(m.GetTranscriptAt()); err != nil {
		return 0, err
	}
	n, err := f.WriteAt(m.GetTranscript(), m.GetTranscriptAt())
	return m.GetTranscriptAt() + int64(n), err
}
