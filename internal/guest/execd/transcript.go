package execd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"aloft/internal/wire/agentv1"
)

// transcripts is the folder of transcripts for hooks, below the home folder.
const transcripts = ".aloft/transcripts"

// plainID matches ids that are safe as file names.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// transcript appends the new part of the conversation to its transcript, and
// returns the file and its size. If it cannot, it returns "" and the hooks run
// anyway. The agent can write its home folder, so no symbolic link that points
// outside it is followed.
func (s *Server) transcript(m *agentv1.RunHooksRequest) (name string, size int64) {
	if s.home == "" || !plainID.MatchString(m.GetConversationId()) {
		return "", 0
	}
	size, err := s.writeTranscript(m)
	if err != nil {
		s.log.Warn("cannot write the transcript for hooks", "error", err)
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
