package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	// stageWatchComplete is the stage ResponseComplete of a watch on its way to the
	// backend. Kubernetes' filter drops the real stage, as if the policy omitted it.
	stageWatchComplete auditinternal.Stage = "WatchComplete"
	// stageRefused marks an event whose request was refused because the backend did not
	// accept it.
	stageRefused auditinternal.Stage = "Refused"
)

// watchPolicy keeps the audit filter from reporting that a watch is complete: when the
// filter returns, the watch may have only left the filters.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters.WithAudit; compare at each upgrade.
type watchPolicy struct{ audit.PolicyRuleEvaluator }

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (p watchPolicy) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	config := p.PolicyRuleEvaluator.EvaluatePolicyRule(a)
	if a.GetVerb() != "watch" || !a.IsResourceRequest() || config.Level == auditinternal.LevelNone {
		return config
	}
	omit := auditinternal.StageResponseComplete
	// Another filter audits requests without a user, and that filter has no such stage.
	if a.GetUser() == nil || slices.Contains(config.OmitStages, omit) {
		omit = stageWatchComplete
	}
	config.OmitStages = append(slices.Clip(config.OmitStages), omit)
	return config
}

// watchStageBackend translates our stages into the stages that the backend knows.
type watchStageBackend struct{ audit.Backend }

// ProcessEvents implements audit.Sink. It is called with the lock of the event's context
// held.
func (s watchStageBackend) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		if e.Stage == stageWatchComplete {
			e.Stage = auditinternal.StageResponseComplete
		}
	}
	if s.Backend.ProcessEvents(events...) {
		return true
	}
	for _, e := range events {
		if e.Stage == auditinternal.StageRequestReceived {
			e.Stage = stageRefused
		}
	}
	return false
}

// auditComplete reports the end of a watch to audit, whether it ended in the filters or
// after them.
func auditComplete(ctx context.Context) {
	if a := audit.AuditContextFrom(ctx); a.Enabled() && a.GetEventStage() != stageRefused {
		a.ProcessEventStage(ctx, stageWatchComplete)
	}
}

// auditPanic reports to audit that a watch panicked after it had left the filters.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters.WithAudit; compare at each upgrade.
func auditPanic(ctx context.Context, p any) {
	a := audit.AuditContextFrom(ctx)
	if !a.Enabled() {
		return
	}
	a.SetEventResponseStatus(&metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", p),
	})
	a.ProcessEventStage(ctx, auditinternal.StagePanic)
}
