package crd

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

// Conditions have the same reasons and messages as in Kubernetes' controllers, because
// clients and people rely on them.

type (
	fullDefinition = apiextensionsv1.CustomResourceDefinition
	condition      = apiextensionsv1.CustomResourceDefinitionCondition
)

// claims has the accepted names of all definitions of a group.
type claims struct{ resources, kinds map[string]bool }

func (c claims) add(n *apiextensionsv1.CustomResourceDefinitionNames) {
	c.resources[n.Plural], c.resources[n.Singular] = true, true
	for _, short := range n.ShortNames {
		c.resources[short] = true
	}
	c.kinds[n.Kind], c.kinds[n.ListKind] = true, true
}

// acceptNames accepts the names that a definition wants, unless another definition has
// them, and reports whether that changed the status. claimed includes the definition's
// own names.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.calculateNamesAndConditions; compare at each upgrade.
func acceptNames(full *fullDefinition, claimed claims) bool {
	wanted, had := &full.Spec.Names, full.Status.AcceptedNames
	if sameNames(wanted, &had) {
		return false
	}
	verdict := condition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	accepted := had
	conflict := func(reason string, err error) bool {
		if err != nil {
			verdict.Status, verdict.Reason, verdict.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
		}
		return err != nil
	}
	if !conflict("PluralConflict", checkFree(wanted.Plural, had.Plural, claimed.resources)) {
		accepted.Plural = wanted.Plural
	}
	if !conflict("SingularConflict", checkFree(wanted.Singular, had.Singular, claimed.resources)) {
		accepted.Singular = wanted.Singular
	}
	if !conflict("ShortNamesConflict", checkShortNamesFree(wanted.ShortNames, had.ShortNames, claimed.resources)) {
		accepted.ShortNames = wanted.ShortNames
	}
	if !conflict("KindConflict", checkFree(wanted.Kind, had.Kind, claimed.kinds)) {
		accepted.Kind = wanted.Kind
	}
	if !conflict("ListKindConflict", checkFree(wanted.ListKind, had.ListKind, claimed.kinds)) {
		accepted.ListKind = wanted.ListKind
	}
	accepted.Categories = wanted.Categories
	if sameNames(&accepted, &had) && apiextensionshelpers.IsCRDConditionEquivalent(&verdict, apiextensionshelpers.FindCRDCondition(full, verdict.Type)) {
		return false
	}
	full.Status.AcceptedNames = accepted
	apiextensionshelpers.SetCRDCondition(full, verdict)
	apiextensionshelpers.SetCRDCondition(full, establishedAfterNaming(full, verdict.Status))
	return true
}

// checkFree returns an error if a name is taken by another definition. had is the accepted
// name of this one.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status.equalToAcceptedOrFresh; compare at each upgrade.
func checkFree(wanted, had string, taken map[string]bool) error {
	if wanted == had || !taken[wanted] {
		return nil
	}
	return fmt.Errorf("%q is already in use", wanted)
}

func checkShortNamesFree(wanted, had []string, taken map[string]bool) error {
	var errs []error
	for _, name := range wanted {
		if !slices.Contains(had, name) {
			errs = append(errs, checkFree(name, "", taken))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return err
	}
	return nil
}

// establishedAfterNaming returns the condition Established that follows from the status of
// the condition NamesAccepted.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/status.NamingConditionController.calculateNamesAndConditions; compare at each upgrade.
func establishedAfterNaming(full *fullDefinition, names apiextensionsv1.ConditionStatus) condition {
	old := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established)
	switch {
	case old != nil && (old.Status == apiextensionsv1.ConditionTrue || names != apiextensionsv1.ConditionTrue):
		return *old
	case names == apiextensionsv1.ConditionTrue:
		return condition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "Installing", Message: "the initial names have been accepted",
		}
	}
	return condition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
		Reason: "NotAccepted", Message: "not all names are accepted",
	}
}

// establish sets the condition Established of a definition whose names are accepted. If
// there is a delay and it is not over, establish queues the definition for later.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/establish.EstablishingController.sync; compare at each upgrade.
func (c *controller) establish(k *definitionState, full *fullDefinition) {
	if !apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.NamesAccepted) ||
		apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established) {
		k.acceptedSince = time.Time{}
		return
	}
	if c.delay > 0 {
		if k.acceptedSince.IsZero() {
			k.acceptedSince = time.Now()
		}
		if left := c.delay - time.Since(k.acceptedSince); left > 0 {
			c.queue.AddAfter(full.Name, left)
			return
		}
	}
	apiextensionshelpers.SetCRDCondition(full, establishedCondition(full))
}

// establishedCondition returns the condition Established of a definition whose names are
// accepted. It is false if the CA of the conversion webhook is invalid.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/establish.EstablishingController.sync; compare at each upgrade.
func establishedCondition(full *fullDefinition) condition {
	conversion := full.Spec.Conversion
	if conversion != nil && conversion.Webhook != nil && conversion.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(field.NewPath(""), conversion.Webhook.ClientConfig.CABundle)) > 0 {
		return condition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "InvalidCABundle", Message: "The conversion webhook CABundle is invalid",
		}
	}
	return condition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
}

// setStructuralCondition sets or removes the condition NonStructuralSchema. Only old
// definitions can have it: today validation requires structural schemas.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema.ConditionController.sync; compare at each upgrade.
func setStructuralCondition(logger *slog.Logger, full *fullDefinition) {
	desired, old := structuralCondition(logger, full), apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.NonStructuralSchema)
	switch {
	case desired != nil && (old == nil || !apiextensionshelpers.IsCRDConditionEquivalent(desired, old)):
		apiextensionshelpers.SetCRDCondition(full, *desired)
	case desired == nil && old != nil:
		apiextensionshelpers.RemoveCRDCondition(full, apiextensionsv1.NonStructuralSchema)
	}
}

// structuralCondition returns the condition NonStructuralSchema, or nil if all schemas are
// structural.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema.calculateCondition; compare at each upgrade.
func structuralCondition(logger *slog.Logger, full *fullDefinition) *condition {
	verdict := &condition{Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionUnknown}
	var errs field.ErrorList
	if full.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range full.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		internal := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, internal, nil); err != nil {
			logger.Error("Schema cannot be converted; its structure is not checked", "name", full.Name, "version", v.Name, "err", err)
			continue
		}
		structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
		if err != nil {
			verdict.Reason = "StructuralError"
			verdict.Message = fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
			return verdict
		}
		at := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		errs = append(errs, structuralschema.ValidateStructural(at, structural)...)
	}
	if len(errs) == 0 {
		return nil
	}
	verdict.Status, verdict.Reason, verdict.Message = apiextensionsv1.ConditionTrue, "Violations", errs.ToAggregate().Error()
	return verdict
}

// needsApproval reports whether the group of a definition is reserved for definitions that
// Kubernetes has approved.
func needsApproval(d *Definition) bool {
	return apiextensionshelpers.IsProtectedCommunityGroup(d.Group)
}

// setApprovalCondition sets the condition KubernetesAPIApprovalPolicyConformant, and returns
// the annotation that it follows from. It returns nil if it did not set the condition.
//
// It sets the condition once for each annotation. A server of another version may word
// the condition differently, and the two servers would overwrite it for ever.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/apiapproval.calculateCondition; compare at each upgrade.
func setApprovalCondition(k *definitionState, full *fullDefinition) *string {
	annotation := full.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation]
	if !apiextensionshelpers.IsProtectedCommunityGroup(full.Spec.Group) || k.approval != nil && *k.approval == annotation {
		return nil
	}
	state, message := apiextensionshelpers.GetAPIApprovalState(full.Annotations)
	desired := condition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse, Message: message,
	}
	switch state {
	case apiextensionshelpers.APIApprovalInvalid:
		desired.Reason = "InvalidAnnotation"
	case apiextensionshelpers.APIApprovalMissing:
		desired.Reason = "MissingAnnotation"
	case apiextensionshelpers.APIApproved:
		desired.Status, desired.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apiextensionshelpers.APIApprovalBypassed:
		desired.Reason = "UnapprovedAnnotation"
	default:
		desired.Status, desired.Reason = apiextensionsv1.ConditionUnknown, "UnknownAnnotation"
	}
	if apiextensionshelpers.IsCRDConditionEquivalent(&desired, apiextensionshelpers.FindCRDCondition(full, desired.Type)) {
		return nil
	}
	apiextensionshelpers.SetCRDCondition(full, desired)
	return &annotation
}
