package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// googleDialect is the Gemini API.
var googleDialect = dialect{
	path: "/v1beta/models/*:streamGenerateContent",
	auth: func(h http.Header) error {
		if h.Get("X-Goog-Api-Key") != Key {
			return errors.New("API key not valid. Please pass a valid API key.")
		}
		return nil
	},
	check: checkGoogle,
	problem: func(status int, kind, words string) []byte {
		if kind == "" {
			kind = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
				429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}[status]
		}
		b, _ := json.Marshal(object{"error": object{"code": status, "message": words, "status": kind}})
		return b
	},
	stream: streamGoogle,
	broken: func(kind, words string) string {
		return event("", object{"error": object{"code": 503, "message": words, "status": kind}})
	},
}

func streamGoogle(n int, r Reply) []string {
	var out []string
	u := r.Usage
	add := func(finish string, parts ...object) {
		c := object{"content": object{"role": "model", "parts": append([]object{}, parts...)}, "index": 0}
		if finish != "" {
			c["finishReason"] = finish
		}
		out = append(out, event("", object{"candidates": []object{c}, "modelVersion": Model, "responseId": fmt.Sprintf("r%06d", n),
			"usageMetadata": object{"promptTokenCount": u.Input + u.CacheRead, "cachedContentTokenCount": u.CacheRead,
				"candidatesTokenCount": u.Output, "totalTokenCount": u.Input + u.CacheRead + u.Output}}))
	}
	for _, p := range r.pieces(r.Thinking) {
		add("", object{"text": p, "thought": true})
	}
	for _, p := range r.pieces(r.Text) {
		add("", object{"text": p})
	}
	for i, c := range r.Calls {
		part := object{"functionCall": object{"name": c.Name, "args": json.RawMessage(c.Args)}}
		if i == 0 { // only the first of parallel calls is signed
			part["thoughtSignature"] = sign(c.Name)
		}
		add("", part)
	}
	switch {
	case r.Refuse:
		add("SAFETY")
	case r.Full:
		add("MAX_TOKENS")
	default:
		add("STOP", object{"text": ""})
	}
	return out
}

type googleRequest struct {
	Contents          []googleContent `json:"contents"`
	SystemInstruction *googleContent  `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	GenerationConfig *struct {
		MaxOutputTokens    int             `json:"maxOutputTokens"`
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		ThinkingConfig     *struct {
			IncludeThoughts bool   `json:"includeThoughts"`
			ThinkingBudget  *int   `json:"thinkingBudget"`
			ThinkingLevel   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

// unsigned is the placeholder that the API accepts as the signature of another
// model's call: the base64 of skip_thought_signature_validator.
const unsigned = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

type googleContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text       *string `json:"text"`
		InlineData *struct {
			MIMEType string `json:"mimeType"`
			Data     string `json:"data"`
		} `json:"inlineData"`
		FunctionCall *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
		FunctionResponse *struct {
			ID       string                     `json:"id"`
			Name     string                     `json:"name"`
			Response map[string]json.RawMessage `json:"response"`
		} `json:"functionResponse"`
		ThoughtSignature string `json:"thoughtSignature"`
	} `json:"parts"`
}

func checkGoogle(r Request, issued []Reply) (string, error) {
	var q googleRequest
	if err := strict(r.Body, &q); err != nil {
		return "", fmt.Errorf("Invalid JSON payload received. Unknown name: %w", err)
	}
	seen := map[string]bool{}
	for _, t := range q.Tools {
		for i, f := range t.FunctionDeclarations {
			if err := checkTool(seen, i, f.Name, f.Parameters); err != nil {
				return "", err
			}
		}
	}
	if len(q.Contents) == 0 {
		return "", errors.New("contents is not specified")
	}
	if g := q.GenerationConfig; g != nil && g.ThinkingConfig != nil {
		c := g.ThinkingConfig
		if c.ThinkingLevel != "" && c.ThinkingBudget != nil {
			return "", errors.New("You can only set only one of thinking budget and thinking level.")
		}
		if !slices.Contains([]string{"", "MINIMAL", "LOW", "MEDIUM", "HIGH"}, c.ThinkingLevel) {
			return "", fmt.Errorf("Invalid value at 'generation_config.thinking_config.thinking_level': %q", c.ThinkingLevel)
		}
	}
	if g := q.GenerationConfig; g != nil && g.ResponseJSONSchema != nil {
		if err := checkFormat("json_schema", g.ResponseJSONSchema); err != nil || g.ResponseMIMEType != "application/json" {
			return "", fmt.Errorf("response_json_schema is allowed only with response_mime_type application/json: %w", err)
		}
	}
	var waiting []string
	for i, c := range q.Contents {
		if i == 0 && c.Role != "user" || c.Role != "user" && c.Role != "model" {
			return "", errors.New("Please use a valid role: user, model.")
		}
		calls, results, err := checkParts(c, issued)
		if err != nil {
			return "", fmt.Errorf("contents[%d]: %w", i, err)
		}
		if strings.Join(results, ",") != strings.Join(waiting, ",") {
			return "", errors.New("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		waiting = calls
	}
	if len(waiting) > 0 {
		return "", errors.New("Please ensure that function call turn comes before a function response turn.")
	}
	name := strings.TrimPrefix(r.Path, "/v1beta/models/")
	return strings.TrimSuffix(name, ":streamGenerateContent"), nil
}

func checkParts(c googleContent, issued []Reply) (calls, results []string, err error) {
	if len(c.Parts) == 0 {
		return nil, nil, errors.New("contents.parts must not be empty.")
	}
	var made []Call
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			args := string(p.FunctionCall.Args)
			if args == "" {
				args = "{}"
			}
			made = append(made, Call{Name: p.FunctionCall.Name, Args: args})
		}
	}
	_, ours := thoughtOf(issued, made) // for calls that the API made itself, it requires the real signature
	for _, p := range c.Parts {
		if (p.FunctionCall != nil) != (c.Role == "model") && p.Text == nil {
			return nil, nil, fmt.Errorf("a part is not for the %s", c.Role)
		}
		switch {
		case p.FunctionCall != nil:
			if checkArguments(string(p.FunctionCall.Args)) != nil && len(p.FunctionCall.Args) > 0 {
				return nil, nil, errors.New("function call args are no object")
			}
			if len(calls) == 0 && p.ThoughtSignature != sign(p.FunctionCall.Name) && (ours || p.ThoughtSignature != unsigned) {
				return nil, nil, errors.New("Function call is missing a thought_signature in functionCall parts.")
			}
			calls = append(calls, p.FunctionCall.Name)
		case p.FunctionResponse != nil:
			results = append(results, p.FunctionResponse.Name)
		case p.InlineData != nil:
			if err := checkImage(p.InlineData.MIMEType, p.InlineData.Data); err != nil {
				return nil, nil, err
			}
		case p.Text == nil || strings.TrimSpace(*p.Text) == "":
			return nil, nil, errors.New("required oneof field 'data' must have one initialized field")
		}
	}
	return calls, results, nil
}
