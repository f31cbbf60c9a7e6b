package postgres

import (
	"context"
	"database/sql/driver"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"aloft/internal/control/store"
)

// sumUsage is the only query that PostgreSQL needs in a different form.
//
//go:embed sum_usage.sql
var sumUsage string

// connector makes connections that accept the queries of package table, and
// that return the store's errors.
type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	plain, ok := made.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection is a %T", made), made.Close())
	}
	return &conn{plain}, nil
}

type conn struct{ *stdlib.Conn }

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	s, err := c.Conn.PrepareContext(ctx, worded(text))
	return s, storeError(err)
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.Conn.ExecContext(ctx, worded(text), clean(args))
	return r, storeError(err)
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	alone := c.Conn.Conn().PgConn().TxStatus() == 'I'
	r, err := c.Conn.QueryContext(ctx, worded(text), clean(args))
	switch {
	case err == nil:
		return rows{r}, nil
	case alone && ctx.Err() == nil:
		return nil, c.stale(err)
	}
	return nil, storeError(err)
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, o)
	if err != nil {
		return nil, c.stale(err)
	}
	return tx, nil
}

// stale converts the error of a dead connection to an error that makes
// database/sql retry on another connection, if nothing was sent yet or the
// query only reads.
func (c *conn) stale(err error) error {
	if err = storeError(err); errors.Is(err, store.ErrUnreachable) && c.Conn.Conn().IsClosed() {
		return driver.ErrBadConn
	}
	return err
}

type rows struct{ driver.Rows }

func (r rows) Next(dest []driver.Value) error {
	switch err := r.Rows.Next(dest); {
	case err == io.EOF: //nolint:errorlint // the interface requires the bare value
		return err
	case err != nil:
		return storeError(err)
	}
	for i, v := range dest {
		if s, ok := v.(string); ok {
			dest[i] = unescaped(s)
		}
	}
	return nil
}

var (
	wordings  sync.Map // converted queries, by the original text
	parameter = regexp.MustCompile(`\?([0-9]+)`)
)

// worded converts a query to PostgreSQL's syntax. Question marks occur only
// before parameter numbers.
func worded(text string) string {
	if known, ok := wordings.Load(text); ok {
		return known.(string)
	}
	own := parameter.ReplaceAllString(text, "$$$1")
	if strings.HasPrefix(text, "-- name: SumUsage ") {
		own = sumUsage
	}
	wordings.Store(text, own)
	return own
}

// escape starts an escape sequence, which continues with two hexadecimal
// digits. It represents a byte that PostgreSQL's text type cannot store, or the
// escape character itself. SQLite stores any bytes, and output of a machine may
// contain any.
const escape = '\x1a'

// clean converts arguments to values that PostgreSQL can store. A nil byte
// slice becomes an empty one.
func clean(args []driver.NamedValue) []driver.NamedValue {
	for i, a := range args {
		switch v := a.Value.(type) {
		case string:
			args[i].Value = escaped(v)
		case []string:
			all := make([]string, len(v))
			for i, s := range v {
				all[i] = escaped(s)
			}
			args[i].Value = all
		case []byte:
			if v == nil {
				args[i].Value = []byte{}
			}
		}
	}
	return args
}

func escaped(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\x1a") {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == escape || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, "%c%02x", escape, s[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unescaped is the inverse of escaped.
func unescaped(s string) string {
	if strings.IndexByte(s, escape) < 0 {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, string(escape))
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n := min(2, len(after))
		c, _ := strconv.ParseUint(after[:n], 16, 8) // written by escaped, so it is valid
		b.WriteByte(byte(c))
		s = after[n:]
	}
}

// Classes and codes of PostgreSQL's errors that we handle.
const (
	uniqueViolation     = "23505"
	foreignKeyViolation = "23503"
	serialization       = "40001"
	deadlock            = "40P01"
	readOnly            = "25006" // the server is a standby
	diskFull            = "53100"
	ioError             = "58030"
	queryCanceled       = "57014" // canceled by statement_timeout
	lockNotAvailable    = "55P03" // canceled by lock_timeout
	connectionClass     = "08"
	resourceClass       = "53"  // for example too many connections
	interventionClass   = "57P" // the server is shutting down or starting, or the database was dropped
	idleTooLong         = "25P03"
)

// storeError converts a database error to one of the store's errors.
func storeError(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrBadConn), errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrFull):
		return err
	case outOfReach(err):
		return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == readOnly || e.Code == diskFull || e.Code == ioError) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

func outOfReach(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case diskFull:
			return false
		case queryCanceled, lockNotAvailable, idleTooLong:
			return true
		}
		return strings.HasPrefix(e.Code, connectionClass) || strings.HasPrefix(e.Code, resourceClass) || strings.HasPrefix(e.Code, interventionClass)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if pgconn.SafeToRetry(err) { // the statement was never sent
		return true
	}
	_, network := errors.AsType[net.Error](err)
	return network && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// refused converts PostgreSQL's constraint errors to the store's errors.
func refused(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case uniqueViolation:
			return store.ErrExists
		case foreignKeyViolation:
			return fmt.Errorf("a row that it refers to: %w", store.ErrNotFound)
		}
	}
	return err
}
