package crd

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// createForbidding forbids to create objects, because their definition is being deleted.
// The embedded interface decides about all other operations.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.forbidCreateAdmission; compare at each upgrade.
type createForbidding struct{ admission.Interface }

// Handles implements admission.Interface.
func (n createForbidding) Handles(o admission.Operation) bool {
	return o == admission.Create || n.Interface.Handles(o)
}

// Admit implements admission.MutationInterface.
func (n createForbidding) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := n.forbid(a); err != nil {
		return err
	}
	if next, ok := n.Interface.(admission.MutationInterface); ok {
		return next.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (n createForbidding) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := n.forbid(a); err != nil {
		return err
	}
	if next, ok := n.Interface.(admission.ValidationInterface); ok {
		return next.Validate(ctx, a, o)
	}
	return nil
}

func (createForbidding) forbid(a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
		errors.New("create not allowed while custom resource definition is terminating"))
}
