package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"aloft/internal/control/identity"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// Rate limits for token requests of a machine. A program that caches a token
// until it expires requests one every five minutes.
const (
	tokensEvery = 500 * time.Millisecond
	tokensBurst = 20
)

// maxTokenBody is the maximum size of a request, in bytes.
const maxTokenBody = 8 << 10

// tokens serves token requests of programs in an agent's machine. The
// connection belongs to the machine, so it identifies the agent.
func (f *Fleet) tokens(agentID string) pod.Option {
	if f.Identity == nil {
		return pod.Tokens(nil)
	}
	return pod.Tokens(f.tokenRoutes(agentID))
}

func (f *Fleet) tokenRoutes(agentID string) http.Handler {
	limit := rate.NewLimiter(rate.Every(tokensEvery), tokensBurst)
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/tokens/oidc", func(w http.ResponseWriter, r *http.Request) {
		if !limit.Allow() {
			w.Header().Set("Retry-After", "1")
			writeTokenFault(w, http.StatusTooManyRequests, fault.Exhausted("this machine requests too many tokens").Hint("keep one until it expires"))
			return
		}
		var ask struct {
			Audience string `json:"aud"`
			Nonce    string `json:"nonce"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTokenBody)).Decode(&ask); err != nil {
			writeTokenFault(w, http.StatusBadRequest, fault.Invalid(`the body must be JSON as {"aud":"https://example.com","nonce":"…"}`))
			return
		}
		token, expires, err := f.sign(r.Context(), agentID, ask.Audience, ask.Nonce)
		switch {
		case fault.Is(err, fault.KindInvalid):
			writeTokenFault(w, http.StatusBadRequest, fault.Of(err))
			return
		case err != nil:
			f.Logger.Error("cannot sign a token", "agent", agentID, "error", err)
			writeTokenFault(w, http.StatusServiceUnavailable, fault.Unavailable("the server cannot sign a token now").Hint("try again in a moment"))
			return
		}
		f.Logger.Info("token signed", "agent", agentID, "audience", ask.Audience)
		writeTokenReply(w, http.StatusOK, map[string]any{"token": token, "expires_at": expires.UTC().Format(time.RFC3339)})
	})
	return routes
}

func (f *Fleet) sign(ctx context.Context, agentID, audience, nonce string) (string, time.Time, error) {
	state, err := f.State(ctx, agentID)
	if err != nil {
		return "", time.Time{}, err
	}
	w := identity.Workload{
		AgentID: agentID, RunID: state.Run.ID, OwnerID: strconv.FormatInt(state.Agent.UserID, 10), Branch: state.Branch,
	}
	if len(state.Agent.Repos) > 0 {
		w.Repo = state.Agent.Repos[0].URL
	}
	return f.Identity.Token(w, audience, nonce)
}

func writeTokenFault(w http.ResponseWriter, status int, f *fault.Error) {
	message := f.Message
	if f.Advice != "" {
		message += ": " + f.Advice
	}
	writeTokenReply(w, status, map[string]any{"error": map[string]string{"code": f.Code, "message": message}})
}

func writeTokenReply(w http.ResponseWriter, status int, reply any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply) // nobody to report the error to
}
