// Package awsrole assumes AWS roles through STS, so that machines can use an
// AWS account without a permanent key.
package awsrole

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"aloft/internal/control/safe"
	"aloft/internal/fault"
)

// Config holds the settings for STS. The server's own credentials come from
// AWS's default sources: environment variables, files, web identity, or the
// instance.
type Config struct {
	Region   string
	Endpoint string // endpoint of STS; defaults to AWS's own in the region
	Profile  string // profile in the files of the AWS CLI; "" means the default
}

const (
	// lifetime is the lifetime of the credentials. It is the maximum that AWS
	// allows if the server's own credentials are those of a role.
	lifetime = time.Hour
	// patience is the timeout for STS. It is short because a run is waiting.
	patience = 20 * time.Second
	attempts = 3
)

// Roles assumes roles. It implements [safe.Roles].
type Roles struct{ sts *sts.Client }

var _ safe.Roles = (*Roles)(nil)

// New finds the server's credentials. If there are none, New succeeds, and Assume
// returns an error.
func New(ctx context.Context, c Config) (*Roles, error) {
	options := []func(*config.LoadOptions) error{config.WithRegion(c.Region)}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("AWS credentials: %w", err)
	}
	return newRoles(loaded, c.Endpoint), nil
}

func newRoles(c aws.Config, endpoint string) *Roles {
	return &Roles{sts.NewFromConfig(c, func(o *sts.Options) {
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts = attempts })
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})}
}

// Assume implements [safe.Roles]. session appears in the account's CloudTrail.
func (r *Roles) Assume(ctx context.Context, arn, externalID, session string) (safe.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := r.sts.AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: &arn, ExternalId: &externalID, RoleSessionName: &session,
		DurationSeconds: aws.Int32(int32(lifetime / time.Second)),
	})
	if err != nil {
		return safe.Credentials{}, explain(err, arn)
	}
	c := out.Credentials
	if c == nil || aws.ToString(c.AccessKeyId) == "" || aws.ToString(c.SecretAccessKey) == "" || c.Expiration == nil {
		return safe.Credentials{}, fault.Unavailable("the AWS role %s could not be assumed: STS returned no credentials", arn).Named("aws_unavailable")
	}
	return safe.Credentials{
		AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, SessionToken: aws.ToString(c.SessionToken), Until: *c.Expiration,
	}, nil
}

// explain returns a fault that says why there are no credentials.
func explain(err error, arn string) error {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		switch e.ErrorCode() {
		case "AccessDenied", "AccessDeniedException":
			return fault.Denied("AWS does not let this server assume the role %s", arn).Named("aws_role_denied").
				Hint("its trust policy must name the server's own role or user, and the external ID that `aloft secret external-id` shows").Because(err)
		case "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature":
			return fault.Unavailable("AWS rejects this server's own credentials: %s", e.ErrorCode()).Named("aws_credentials").
				Hint("fix them where the server finds them: environment variables, files or instance").Because(err)
		case "ValidationError":
			return fault.Invalid("AWS rejects the role %s: %s", arn, e.ErrorMessage()).Named("aws_role_invalid").Because(err)
		}
	}
	if e, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok && e.HTTPStatusCode() == http.StatusForbidden {
		return fault.Denied("AWS refuses this server: status 403").Named("aws_role_denied").Because(err)
	}
	return fault.Unavailable("the AWS role %s could not be assumed", arn).Named("aws_unavailable").
		Hint("check that the server can reach STS (secrets.aws) and has credentials of its own, then try again").Because(err)
}
