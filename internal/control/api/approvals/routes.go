package approvals

import (
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/approvals", ID: "listApprovals", Summary: "List requests waiting for your answer, oldest first",
			Status: 200, Out: listApprovalsResponseJSON{}, Handle: s.listApprovals},
		{Method: "GET", Path: "/v1/agents/{id}/approvals", ID: "listAgentApprovals", Summary: "List an agent's pending requests",
			Status: 200, Out: listApprovalsResponseJSON{}, Handle: s.listAgentApprovals},
		{Method: "POST", Path: "/v1/agents/{id}/approvals/{approvalId}", ID: "answerApproval", Summary: "Answer an agent's request; the first answer counts",
			Header: []rest.Param{rest.IdempotencyParam}, In: answerRequestJSON{}, Status: 200, Out: rest.IDResponseJSON{}, Handle: s.answerApproval},
	}
}
