package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// idleTimeout is how long a request may make no progress in sending or
// receiving.
const idleTimeout = 2 * time.Minute

// patientReader reads a request body. It sets an idle timeout for each read,
// but no total timeout.
type patientReader struct {
	body io.Reader
	rc   *http.ResponseController
}

// newPatientReader also sets a deadline for the first read. The deadline also
// applies if the server drains an unread body.
func newPatientReader(w http.ResponseWriter, r *http.Request) *patientReader {
	p := &patientReader{r.Body, http.NewResponseController(w)}
	// Replace the deadline of an earlier request on the connection.
	_ = p.rc.SetWriteDeadline(time.Now().Add(idleTimeout))
	if r.Body != nil && r.Body != http.NoBody {
		p.deadline(time.Now().Add(idleTimeout))
	}
	return p
}

func (p *patientReader) Read(b []byte) (int, error) {
	p.deadline(time.Now().Add(idleTimeout))
	n, err := p.body.Read(b)
	if errors.Is(err, io.EOF) {
		// The HTTP server now reads in the background to detect a closed connection.
		// That read must have no deadline.
		p.deadline(time.Time{})
	}
	return n, err
}

// deadline sets the read deadline. It ignores errors: a server that does not
// support deadlines has its own timeout.
func (p *patientReader) deadline(t time.Time) { _ = p.rc.SetReadDeadline(t) }

// patientWriter writes a response without buffering. It sets an idle timeout
// for each write, but no total timeout.
type patientWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	written int64
}

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(idleTimeout))
	n, err := p.w.Write(b)
	p.written += int64(n)
	if err == nil {
		err = p.rc.Flush()
	}
	return n, err
}

// ReadFrom copies in chunks of a pipe's size.
func (p *patientWriter) ReadFrom(r io.Reader) (int64, error) {
	start := p.written
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := p.Write(buf[:n]); werr != nil {
				return p.written - start, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return p.written - start, nil
		}
		if err != nil {
			return p.written - start, err
		}
	}
}
