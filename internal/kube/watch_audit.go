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
	// backend. Kubernetes' filter leaves that stage out, as if the policy said so.
	stageWatchComplete auditinternal.Stage = "WatchComplete"
	// stageRefused is that of an event whose request was refused, since the backend did
	// not take it.
	stageRefused auditinternal.Stage = "Refused"
)

// watchPolicy keeps the filter from saying that a watch is complete: when it says so,
// the watch may have left the filters.
type watchPolicy struct{ audit.PolicyRuleEvaluator }

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (p watchPolicy) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	config := p.PolicyRuleEvaluator.EvaluatePolicyRule(a)
	if a.GetVerb() != "watch" || !a.IsResourceRequest() || config.Level == auditinternal.LevelNone {
		return config
	}
	omit := auditinternal.StageResponseComplete
	// A request without a user is audited by another filter, which has no such stage.
	if a.GetUser() == nil || slices.Contains(config.OmitStages, omit) {
		omit = stageWatchComplete
	}
	config.OmitStages = append(slices.Clip(config.OmitStages), omit)
	return config
}

// watchStageBackend gives the backend the stages that it knows.
type watchStageBackend struct{ audit.Backend }

// ProcessEvents implements audit.Sink. The lock of an event's context is held.
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

// auditComplete tells audit that a watch has ended, in the filters or behind them.
func auditComplete(ctx context.Context) {
	if a := audit.AuditContextFrom(ctx); a.Enabled() && a.GetEventStage() != stageRefused {
		a.ProcessEventStage(ctx, stageWatchComplete)
	}
}

// auditPanic tells audit that a watch panicked behind the filters.
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
