package accounts

import (
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return slices.Concat(s.sessionRoutes(), s.memberRoutes(), s.keyRoutes(), s.settingsRoutes(), s.accessRoutes(), s.skillRoutes(), []rest.Route{
		{Method: "GET", Path: "/v1/rules/{owner}/{name}", ID: "getRule", Summary: "Show a rule file, yours or the team's",
			Status: 200, Out: ruleJSON{}, Handle: s.getRule},
		{Method: "PUT", Path: "/v1/rules/{owner}/{name}", ID: "putRule", Summary: "Set a rule file; the team's for admins only",
			In: putRuleRequestJSON{}, Status: 200, Out: ruleJSON{}, Handle: s.putRule},
		{Method: "POST", Path: "/v1/sub-tokens", ID: "createSubToken", Summary: "Create a one-hour token that acts for a user; admins only", Needs: account.Admin,
			In: createSubTokenRequestJSON{}, Status: 200, Out: createSubTokenResponseJSON{}, Handle: s.createSubToken},
		{Method: "GET", Path: "/v1/secrets", ID: "listSecrets", Summary: "List your secrets and the team's without values, newest first",
			Query:  append(slices.Clone(rest.PageParams), rest.Param{Name: "environmentId", Kind: "string", Words: "include those of this environment"}),
			Status: 200, Out: listSecretsResponseJSON{}, Handle: s.listSecrets},
		{Method: "PUT", Path: "/v1/secrets/{name}", ID: "putPersonalSecret", Summary: "Set one of your secrets",
			In: putSecretRequestJSON{}, Status: 200, Out: secretJSON{}, Handle: s.putSecret(ownSecrets)},
		{Method: "DELETE", Path: "/v1/secrets/{name}", ID: "deletePersonalSecret", Summary: "Delete one of your secrets",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.deleteSecret(ownSecrets)},
		{Method: "PUT", Path: "/v1/team/secrets/{name}", ID: "putTeamSecret", Summary: "Set a secret of the team; admins only", Needs: account.Admin,
			In: putSecretRequestJSON{}, Status: 200, Out: secretJSON{}, Handle: s.putSecret(teamSecrets)},
		{Method: "DELETE", Path: "/v1/team/secrets/{name}", ID: "deleteTeamSecret", Summary: "Delete a secret of the team; admins only", Needs: account.Admin,
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.deleteSecret(teamSecrets)},
		{Method: "PUT", Path: "/v1/environments/{id}/secrets/{name}", ID: "putEnvironmentSecret", Summary: "Set a secret of an environment",
			In: putSecretRequestJSON{}, Status: 200, Out: secretJSON{}, Handle: s.putSecret(environmentSecrets)},
		{Method: "DELETE", Path: "/v1/environments/{id}/secrets/{name}", ID: "deleteEnvironmentSecret", Summary: "Delete a secret of an environment",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.deleteSecret(environmentSecrets)},
		{Method: "POST", Path: "/v1/team/secrets-rotation", ID: "rotateSecrets", Summary: "Re-encrypt every secret with new keys; admins only", Long: true, Needs: account.Admin,
			Status: 200, Out: rotatedJSON{}, Handle: s.rotateSecrets},
		{Method: "GET", Path: "/v1/team/external-id", ID: "getExternalID", Summary: "Show the external ID for the team's AWS roles",
			Status: 200, Out: externalIDJSON{}, Handle: s.getExternalID},
		{Method: "GET", Path: "/v1/me", ID: "getApiKeyInfo", Summary: "Show the user of this API key", Status: 200, Out: apiKeyInfoJSON{}, Handle: s.getMe},
	})
}
