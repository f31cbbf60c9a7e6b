package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandOf maps each operation of the API to its command, because everything
// that the dashboard does must also be possible in a terminal. An operation
// without a command has the reason in brackets instead.
var commandOf = map[string]string{
	"createAgent": "run", "listAgents": "agent list", "getAgent": "agent show", "updateAgent": "agent rename", "deleteAgent": "agent delete",
	"archiveAgent": "agent archive", "unarchiveAgent": "agent unarchive", "pauseAgent": "agent pause", "resumeAgent": "agent resume",
	"createRun": "agent follow-up", "listRuns": "agent show", "getRun": "agent show", "cancelRun": "agent stop", "streamRun": "agent logs",
	"retryTurn": "agent retry", "forkAgent": "agent fork", "queuePrompt": "agent queue", "listQueue": "agent queue", "unqueuePrompt": "agent queue",
	"listAgentEvents": "agent logs", "getAgentJournal": "agent show", "getAgentContext": "agent show", "getAgentFindings": "review", "getEventImage": "[a picture is for the eyes]", "getAgentDiff": "agent diff", "createPullRequest": "agent pr", "listPullRequests": "agent pr", "proposePullRequest": "agent pr", "getAgentUsage": "agent show",
	"listArtifacts": "agent artifacts", "downloadArtifact": "agent artifacts", "getArtifactContents": "agent artifacts",
	"listAgentConnections": "agent connections", "listPorts": "agent ports", "forwardPort": "agent forward", "createPreview": "agent preview",
	"openAgentPTY": "agent attach", "listAgentTerminals": "agent terminals", "createAgentTerminal": "agent attach", "openSSH": "agent ssh",
	"getAgentDesktop": "agent desktop", "openAgentDesktop": "agent desktop",
	"listWebhookDeliveries": "agent webhook", "replayWebhookDelivery": "agent webhook replay",
	"readFile": "agent cp", "writeFile": "agent cp", "readFolder": "agent cp", "listFiles": "agent exec",
	"createFolder": "agent exec", "moveFile": "agent exec", "deleteFile": "agent exec",
	"createSnapshot": "snapshot create", "listSnapshots": "env snapshots", "deleteSnapshot": "env snapshots", "updateSnapshot": "env snapshots",
	"getProposedEnvironment": "env setup", "tryEnvironment": "env setup", "commitEnvironment": "env setup",
	"listApprovals": "approvals list", "listAgentApprovals": "agent show", "answerApproval": "approvals allow",
	"getRule": "rules show", "putRule": "rules set", "listRepositories": "repositories", "listModels": "models",
	"createSubToken": "key sub-token", "getApiKeyInfo": "me", "listKeys": "key list", "createKey": "key create", "deleteKey": "key delete",
	"updateMe": "me update", "setPassword": "me password", "listPasskeys": "me passkeys", "deletePasskey": "me passkeys delete",
	"beginPasskey": "[a browser makes passkeys]", "createPasskey": "[a browser makes passkeys]", "beginPasskeySignIn": "[a browser has them]",
	"signIn": "login", "signOut": "[it ends a browser's session: key delete]", "getSession": "me",
	"visitProvider": "[for a browser]", "providerCallback": "[for a browser]",
	"listMembers": "member list", "inviteMember": "member invite", "updateMember": "member update", "createSignInLink": "member link",
	"createAutomation": "automations create", "listAutomations": "automations list", "getAutomation": "automations show", "updateAutomation": "automations update", "deleteAutomation": "automations delete",
	"tryAutomation": "automations try", "startAutomation": "automations start", "listAutomationStarts": "automations history", "promoteAutomationStart": "automations promote", "cancelAutomationStart": "automations cancel",
	"listInboundEvents": "events list", "replayInboundEvent": "events replay", "receiveEvent": "[for other services]",
	"listSkillVersions": "rules versions", "publishSkills": "rules publish",
	"listMemories": "memory list", "getMemory": "memory show", "updateMemory": "memory edit", "approveMemory": "memory approve", "rejectMemory": "memory reject", "deleteMemory": "memory delete",
	"listAudit": "audit", "getSettings": "settings", "updateSettings": "settings set", "getRepositoryAccess": "access", "updateRepositoryAccess": "access use", "getUsageReport": "usage", "getDiskUsage": "usage disk",
	"listMcpServers": "mcp list", "addMcpServer": "mcp add", "removeMcpServer": "mcp remove", "testMcpServer": "mcp test", "beginMcpSignIn": "mcp login",
	"endMcpSignIn": "mcp logout", "mcpSignInCallback": "[for a browser]", "listAgentMcpServers": "agent show", "beginAgentMcpSignIn": "[a browser signs in]",
	"getServer": "connect", "connectModel": "connect model", "disconnectModel": "connect remove", "connectGitServer": "connect git", "disconnectGitServer": "connect remove",
	"exportConfiguration": "[for a file: curl]",
	"listSecrets":         "secret list", "putPersonalSecret": "secret set", "deletePersonalSecret": "secret delete", "putTeamSecret": "secret set",
	"deleteTeamSecret": "secret delete", "putEnvironmentSecret": "secret set", "deleteEnvironmentSecret": "secret delete",
	"rotateSecrets": "secret rotate", "getExternalID": "secret external-id",
	"listEnvironments": "env list", "createEnvironment": "env create", "getEnvironment": "env show", "updateEnvironment": "env update",
	"deleteEnvironment": "env delete", "listEnvironmentHistory": "env history", "diffEnvironmentHistory": "env history", "checkEnvironment": "env check", "getEnvironmentSchema": "env schema",
	"listEnvironmentBuilds": "env builds", "startEnvironmentBuild": "env build", "getEnvironmentBuild": "env builds", "cancelEnvironmentBuild": "env cancel",
	"getEnvironmentBuildLog": "env logs", "listRepositoryBuilds": "env builds", "startRepositoryBuild": "env build", "getBuild": "env builds",
	"cancelBuild": "env cancel", "getBuildLog": "env logs", "openBuildPTY": "env shell",
	"health": "[for monitors]", "metrics": "[for monitors]", "openAPI": "[for programs]", "getHelpOnErrors": "[for browsers]", "openAPIYAML": "[for programs]",
	"openIDConfiguration": "[for programs]", "openIDKeys": "[for programs]",
}

// TestEveryOperationHasACommand checks that every operation of /v1 has a
// command.
func TestEveryOperationHasACommand(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	root := newRootCommand(newApp(noEnv))
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		id, ok := strings.CutPrefix(strings.TrimSpace(line), "operationId: ")
		if !ok || strings.HasPrefix(id, "v0") {
			continue
		}
		seen[id] = true
		words, ok := commandOf[id]
		if !ok {
			t.Errorf("%s has no command", id)
			continue
		}
		if strings.HasPrefix(words, "[") {
			continue
		}
		var found *cobra.Command
		if found, _, err = root.Find(strings.Fields(words)); err != nil || found.CommandPath() != "aloft "+words {
			t.Errorf("%s: there is no command %q", id, words)
		}
	}
	for id := range commandOf {
		if !seen[id] {
			t.Errorf("there is no operation %s", id)
		}
	}
}
