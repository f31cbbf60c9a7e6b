import type { components } from "./schema";

type Schemas = components["schemas"];

export type AgentSummary = Schemas["AgentSummary"];
export type Agent = Schemas["Agent"];
export type Approval = Schemas["Approval"];
export type Decision = Schemas["AnswerRequest"]["decision"];
export type Run = Schemas["Run"];
export type Prompt = Schemas["Prompt"];
export type PromptImage = NonNullable<Prompt["images"]>[number];
export type CreateAgent = Schemas["CreateAgentRequest"];
export type RunMode = NonNullable<CreateAgent["runMode"]>;
export type Model = Schemas["ModelListItem"];
export type Environment = Schemas["Environment"];
export type EnvironmentDetail = Environment & Schemas["EnvironmentDetail"];
export type Build = Schemas["Build"];
export type Secret = Schemas["Secret"];
export type SecretType = NonNullable<Schemas["PutSecretRequest"]["type"]>;
export type Terminal = Schemas["Terminal"];
export type Diff = Schemas["Diff"];
export type Usage = Schemas["AgentUsageResponse"];
export type Me = Schemas["ApiKeyInfo"];
export type Rule = Schemas["Rule"];
export type Preview = Schemas["Preview"];
export type Fork = Schemas["ForkRequest"];
