package modeltest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"aloft/internal/control/model/modeltest"
)

// A row is a request that a server accepts, or rejects with a message.
type row struct {
	name, body, refusal string
}

func post(t *testing.T, url string, header map[string]string, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func check(t *testing.T, s *modeltest.Server, path string, header map[string]string, rows []row) {
	s.Answer(func(int, modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "ok"} })
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			status, body := post(t, s.URL+path, header, r.body)
			if r.refusal == "" && status != http.StatusOK {
				t.Errorf("HTTP %d: %s", status, body)
			}
			if r.refusal != "" && (status != http.StatusBadRequest || !strings.Contains(body, r.refusal)) {
				t.Errorf("HTTP %d, want a refusal with %q: %.300s", status, r.refusal, body)
			}
		})
	}
	t.Run("WrongKey", func(t *testing.T) {
		if status, body := post(t, s.URL+path, map[string]string{"X-Api-Key": "no", "Authorization": "Bearer no", "Anthropic-Version": "2023-06-01"}, rows[0].body); status != http.StatusUnauthorized {
			t.Errorf("HTTP %d: %s", status, body)
		}
	})
	t.Run("WrongPath", func(t *testing.T) {
		if status, _ := post(t, s.URL+"/nowhere", header, rows[0].body); status != http.StatusNotFound {
			t.Errorf("HTTP %d", status)
		}
	})
}

const gif = "R0lGODlhAQABAAAAACw="

func TestAnthropicIsStrict(t *testing.T) {
	header := map[string]string{"X-Api-Key": modeltest.Key, "Anthropic-Version": "2023-06-01"}
	with := func(messages string, more ...string) string {
		return `{"model":"test-model-1","max_tokens":100,"stream":true,"messages":[` + messages + `]` + strings.Join(more, "") + `}`
	}
	const (
		hi   = `{"role":"user","content":"hi"}`
		use  = `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{}}]}`
		done = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}`
		mark = `"cache_control":{"type":"ephemeral"}`
	)
	s := modeltest.NewAnthropic(t)
	check(t, s, "/v1/messages", header, []row{
		{"Text", with(hi), ""},
		{"CallAndResult", with(hi + "," + use + "," + done), ""},
		{"ACallWithoutResult", with(hi + "," + use + "," + hi), "without `tool_result` blocks"},
		{"ACallAtTheEnd", with(hi + "," + use), "without `tool_result` blocks"},
		{"AResultWithoutCall", with(done), "unexpected `tool_use_id`"},
		{"AResultAfterText", with(hi + "," + use + `,{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"t1"}]}`), "must come first"},
		{"AnErrorWithoutWords", with(hi + "," + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true}]}`), "cannot be empty"},
		{"IdTwice", with(hi + "," + use + "," + done + "," + use + "," + done), "ids must be unique"},
		{"EmptyText", with(`{"role":"user","content":[{"type":"text","text":""}]}`), "non-empty"},
		{"WhiteText", with(`{"role":"user","content":[{"type":"text","text":" \n"}]}`), "non-whitespace"},
		{"EmptyContent", with(`{"role":"user","content":[]}`), "non-empty"},
		{"NoMessages", with(""), "at least one message"},
		{"AssistantFirst", with(`{"role":"assistant","content":"hi"}`), "first message"},
		{"TwoOfOneRole", with(hi + "," + hi), "alternate"},
		{"SystemRole", with(hi + `,{"role":"system","content":"x"}`), "role"},
		{"TrailingWhitespace", with(hi + `,{"role":"assistant","content":"so "}`), "trailing whitespace"},
		{"NoMaxTokens", `{"model":"test-model-1","stream":true,"messages":[` + hi + `]}`, "max_tokens"},
		{"UnknownField", with(hi, `,"temprature":1`), "Extra inputs"},
		{"UnknownFieldOfABlock", with(`{"role":"user","content":[{"type":"text","text":"a","txt":1}]}`), "txt"},
		{"ToolTwice", with(hi, `,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]`), "unique"},
		{"ToolName", with(hi, `,"tools":[{"name":"a b","input_schema":{"type":"object"}}]`), "pattern"},
		{"SchemaIsNoObject", with(hi, `,"tools":[{"name":"a","input_schema":{"type":"string"}}]`), "schema"},
		{"InputIsNoObject", with(hi + `,{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":"x"}]},` + done), "dictionary"},
		{"ThinkingWithoutSignature", with(hi + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"a"}]},` + hi), "signature"},
		{"ThinkingChanged", with(hi + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"},{"type":"text","text":"a"}]},` + hi), "Invalid `signature`"},
		{"BudgetTooLarge", with(hi, `,"thinking":{"type":"enabled","budget_tokens":1024}`), "budget_tokens"},
		{"Image", with(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"` + gif + `"}}]}`), ""},
		{"ImageType", with(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"` + gif + `"}}]}`), "media type"},
		{"ImageData", with(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"?"}}]}`), "base64"},
		{"FiveMarks", with(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"a",`+mark+`},`, 4) + `{"type":"text","text":"a",` + mark + `}]}`), "maximum of 4"},
		{"UnknownBlock", with(`{"role":"user","content":[{"type":"video"}]}`), "expected tags"},
	})
	if status, body := post(t, s.URL+"/v1/messages", map[string]string{"X-Api-Key": modeltest.Key}, with(hi)); status != 400 || !strings.Contains(body, "anthropic-version") {
		t.Errorf("without a version: HTTP %d: %s", status, body)
	}
}

func TestChatIsStrict(t *testing.T) {
	header := map[string]string{"Authorization": "Bearer " + modeltest.Key}
	with := func(messages string, more ...string) string {
		return `{"model":"test-model-1","stream":true,"messages":[` + messages + `]` + strings.Join(more, "") + `}`
	}
	const (
		hi   = `{"role":"user","content":"hi"}`
		use  = `{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"Read","arguments":"{}"}}]}`
		done = `{"role":"tool","tool_call_id":"t1","content":"x"}`
	)
	check(t, modeltest.NewChat(t), "/chat/completions", header, []row{
		{"Text", with(hi), ""},
		{"CallAndResult", with(`{"role":"system","content":"s"},` + hi + "," + use + "," + done), ""},
		{"ACallWithoutResult", with(hi + "," + use + "," + hi), "must be followed by tool messages"},
		{"ACallAtTheEnd", with(hi + "," + use), "must be followed by tool messages"},
		{"AResultWithoutCall", with(hi + "," + done), "must be a response to a preceding message"},
		{"IdTwice", with(hi + "," + use + "," + done + "," + use + "," + done), "not unique"},
		{"EmptyText", with(`{"role":"user","content":" "}`), "empty"},
		{"NullContent", with(hi + `,{"role":"assistant","content":null}`), "got null"},
		{"NullOfTheUser", with(`{"role":"user","content":null}`), "content"},
		{"AssistantFirst", with(`{"role":"assistant","content":"x"}`), "begins with the assistant"},
		{"UnknownField", with(hi, `,"max_token":1`), "Unrecognized"},
		{"BothLimits", with(hi, `,"max_tokens":1,"max_completion_tokens":1`), "same time"},
		{"ToolTwice", with(hi, `,"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object"}}},{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}]`), "unique"},
		{"ToolName", with(hi, `,"tools":[{"type":"function","function":{"name":"a.b","parameters":{"type":"object"}}}]`), "pattern"},
		{"Arguments", with(hi + `,{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"Read","arguments":"x"}}]},` + done), "JSON object"},
		{"ImageOfATool", with(hi + "," + use + `,{"role":"tool","tool_call_id":"t1","content":[{"type":"image_url","image_url":{"url":"data:image/gif;base64,` + gif + `"}}]}`), "only text"},
		{"Image", with(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/gif;base64,` + gif + `"}}]}`), ""},
		{"ImageType", with(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/bmp;base64,` + gif + `"}}]}`), "media type"},
		{"Role", with(`{"role":"robot","content":"x"}`), "not one of"},
	})
}

func TestResponsesIsStrict(t *testing.T) {
	header := map[string]string{"Authorization": "Bearer " + modeltest.Key}
	with := func(items string, more ...string) string {
		return `{"model":"test-model-1","stream":true,"input":[` + items + `]` + strings.Join(more, "") + `}`
	}
	const (
		hi   = `{"role":"user","content":"hi"}`
		use  = `{"type":"function_call","call_id":"t1","name":"Read","arguments":"{}"}`
		done = `{"type":"function_call_output","call_id":"t1","output":"x"}`
	)
	sum := sha256.Sum256([]byte("modeltest rs_1"))
	signed := base64.StdEncoding.EncodeToString(sum[:])
	check(t, modeltest.NewResponses(t), "/responses", header, []row{
		{"Text", with(hi), ""},
		{"CallAndResult", with(hi + "," + use + "," + done), ""},
		{"ACallWithoutResult", with(hi + "," + use + "," + hi), "No tool output found"},
		{"AResultWithoutCall", with(hi + "," + done), "No tool call found"},
		{"IdTwice", with(hi + "," + use + "," + done + "," + use + "," + done), "not unique"},
		{"ReasoningAlone", with(hi + `,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + signed + `"},` + hi), "required following item"},
		{"ReasoningAtTheEnd", with(hi + `,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + signed + `"}`), "required following item"},
		{"ReasoningChanged", with(hi + `,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},` + use + "," + done), "could not be verified"},
		{"AssistantFirst", with(`{"role":"assistant","content":"x"}`), "not the user's"},
		{"EmptyText", with(`{"role":"user","content":[{"type":"input_text","text":""}]}`), "empty"},
		{"WrongPart", with(hi + `,{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), "not for the assistant"},
		{"UnknownField", with(hi, `,"max_tokens":100`), "Unknown parameter"},
		{"TooFewTokens", with(hi, `,"max_output_tokens":1`), "below minimum"},
		{"ToolTwice", with(hi, `,"tools":[{"type":"function","name":"a","parameters":{"type":"object"}},{"type":"function","name":"a","parameters":{"type":"object"}}]`), "unique"},
		{"ImageType", with(`{"role":"user","content":[{"type":"input_image","image_url":"data:text/html;base64,` + gif + `"}]}`), "media type"},
		{"UnknownItem", with(hi + `,{"type":"video"}`), "Invalid value"},
	})
}

func TestGoogleIsStrict(t *testing.T) {
	header := map[string]string{"X-Goog-Api-Key": modeltest.Key}
	with := func(contents string, more ...string) string {
		return `{"contents":[` + contents + `]` + strings.Join(more, "") + `}`
	}
	const (
		hi   = `{"role":"user","parts":[{"text":"hi"}]}`
		use  = `{"role":"model","parts":[{"functionCall":{"name":"Read","args":{}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}]}`
		done = `{"role":"user","parts":[{"functionResponse":{"name":"Read","response":{"output":"x"}}}]}`
	)
	check(t, modeltest.NewGoogle(t), "/v1beta/models/test-model-1:streamGenerateContent", header, []row{
		{"Text", with(hi), ""},
		{"CallAndResult", with(hi + "," + use + "," + done), ""},
		{"ACallWithoutResult", with(hi + "," + use + "," + hi), "number of function response parts"},
		{"ACallAtTheEnd", with(hi + "," + use), "function call turn"},
		{"AResultWithoutCall", with(done), "number of function response parts"},
		{"NoSignature", with(hi + `,{"role":"model","parts":[{"functionCall":{"name":"Read"}}]},` + done), "thought_signature"},
		{"ModelFirst", with(`{"role":"model","parts":[{"text":"x"}]}`), "valid role"},
		{"EmptyPart", with(`{"role":"user","parts":[{"text":""}]}`), "oneof field"},
		{"NoParts", with(`{"role":"user","parts":[]}`), "must not be empty"},
		{"UnknownField", with(hi, `,"maxTokens":1`), "Unknown name"},
		{"ToolTwice", with(hi, `,"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":"object"}},{"name":"a","parametersJsonSchema":{"type":"object"}}]}]`), "unique"},
		{"ImageType", with(`{"role":"user","parts":[{"inlineData":{"mimeType":"image/bmp","data":"` + gif + `"}}]}`), "media type"},
	})
}

// In the current turn, calls must be sent with the unchanged reasoning that the
// server has sent with them, or without reasoning if thinking is off.
func TestAnthropicWantsItsThinkingBack(t *testing.T) {
	header := map[string]string{"X-Api-Key": modeltest.Key, "Anthropic-Version": "2023-06-01"}
	sum := sha256.Sum256([]byte("modeltest I look."))
	other := sha256.Sum256([]byte("modeltest I lie."))
	const (
		enabled = `,"thinking":{"type":"enabled","budget_tokens":1024}`
		adapts  = `,"thinking":{"type":"adaptive"}`
		use     = `{"type":"tool_use","id":"own1","name":"Read","input":{"path":"a"}}`
		foreign = `{"type":"tool_use","id":"own2","name":"Shell","input":{}}`
		missing = "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
		altered = "cannot be modified"
	)
	thought := `{"type":"thinking","thinking":"I look.","signature":"` + base64.StdEncoding.EncodeToString(sum[:]) + `"},`
	lie := `{"type":"thinking","thinking":"I lie.","signature":"` + base64.StdEncoding.EncodeToString(other[:]) + `"},`
	loop := func(thinking, blocks, id string, after ...string) string {
		return `{"model":"test-model-1","max_tokens":4096,"stream":true` + thinking + `,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[` + blocks + `]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}]}` + strings.Join(after, "") + `]}`
	}
	s := modeltest.NewAnthropic(t, modeltest.Reply{Thinking: "I look.", Calls: []modeltest.Call{{Name: "Read", Args: `{"path":"a"}`}}})
	if status, body := post(t, s.URL+"/v1/messages", header, `{"model":"test-model-1","max_tokens":4096,"stream":true`+adapts+`,"messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", status, body)
	}
	check(t, s, "/v1/messages", header, []row{
		{"Unchanged", loop(enabled, thought+use, "own1"), ""},
		{"UnchangedWhereItAdapts", loop(adapts, thought+use, "own1"), ""},
		{"Missing", loop(enabled, use, "own1"), missing},
		{"MissingWhereItAdapts", loop(adapts, use, "own1"), missing},
		{"Another", loop(adapts, lie+use, "own1"), altered},
		{"Altered", loop(adapts, strings.Replace(thought, "look", "peek", 1)+use, "own1"), "Invalid `signature` in `thinking` block"},
		{"ATurnWithoutWhereThereIsABudget", loop(enabled, foreign, "own2"), "Expected `thinking`"},
		{"ATurnWithoutWhereItAdapts", loop(adapts, foreign, "own2"), ""},
		{"ThinkingIsOff", loop("", thought+use, "own1"), "When thinking is disabled"},
		{"AFormerTurn", loop(adapts, use, "own1", `,{"role":"assistant","content":"done"},{"role":"user","content":"more"}`), ""},
		{"AModeThatThereIsNot", loop(`,"thinking":{"type":"always"}`, use, "own1"), "valid thinking configuration"},
		{"AnEffortThatThereIsNot", loop(`,"output_config":{"effort":"minimal"}`, use, "own1"), "output_config.effort"},
	})
}
