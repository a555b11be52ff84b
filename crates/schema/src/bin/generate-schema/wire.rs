//! Adds protobuf numbers to the fields of built types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everflow_schema::{Field, ObjectType, Shape, Type, TypeId, TypeTable, WireEncoding, WireField};

use crate::Failure;
use crate::golang::{self, GoField, Structs};
use crate::proto::{Message, Messages, ProtoField};

/// Adds the wire facts to every field of every type that has a protobuf message.
pub fn add(table: &mut TypeTable, modules: &Path) -> Result<(), Failure> {
    let mut sources = Sources {
        modules,
        messages: Messages::default(),
        packages: BTreeMap::new(),
    };
    let ids: Vec<TypeId> = table.iter().map(|(id, _)| id).collect();
    for id in &ids {
        if let Some((package, _)) = table[*id].name.as_deref().and_then(Package::of_definition) {
            sources.load(&package)?;
        }
    }
    for id in ids {
        let mut built = table[id].clone();
        if sources.complete(&mut built, table)? {
            table.set(id, built);
        }
    }
    Ok(())
}

/// Only ever sent as JSON.
const WITHOUT_MESSAGE: [&str; 1] = ["io.k8s.apimachinery.pkg.version.Info"];

/// A Go package: where it is and what its messages are called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    /// Relative to the directory of modules (`api/core/v1`).
    directory: PathBuf,
    /// The protobuf package (`k8s.io.api.core.v1`).
    proto: String,
}

impl Package {
    /// Splits `io.k8s.api.core.v1.Pod` into the package and `Pod`.
    fn of_definition(name: &str) -> Option<(Self, &str)> {
        let (package, last) = name.strip_prefix("io.k8s.")?.rsplit_once('.')?;
        Some((
            Self {
                directory: package.split('.').collect(),
                proto: format!("k8s.io.{}", package.replace('-', "_")),
            },
            last,
        ))
    }
}

struct Sources<'m> {
    modules: &'m Path,
    messages: Messages,
    packages: BTreeMap<Package, Structs>,
}

/// What a struct's fields look like on the wire, with embedded structs flattened.
type Flat<'s> = BTreeMap<&'s str, (&'s GoField, &'s ProtoField, [u32; 2])>;

impl Sources<'_> {
    fn load(&mut self, package: &Package) -> Result<(), Failure> {
        if self.packages.contains_key(package) {
            return Ok(());
        }
        let directory = self.modules.join(&package.directory);
        self.messages.read(&directory.join("generated.proto"))?;
        self.packages
            .insert(package.clone(), golang::read_package(&directory)?);
        Ok(())
    }

    /// Fills in the fields of one type; false when it has no message.
    fn complete(&self, built: &mut Type, table: &TypeTable) -> Result<bool, Failure> {
        let Some(name) = built.name.clone() else {
            return Ok(false);
        };
        let Some((package, last)) = Package::of_definition(&name) else {
            return Ok(false);
        };
        let Shape::Object(object) = &mut built.shape else {
            return Ok(false);
        };
        if object.fields.is_empty() || WITHOUT_MESSAGE.contains(&name.as_str()) {
            return Ok(false);
        }
        let mut flat = Flat::new();
        self.flatten(&package, last, [0, 0], &mut flat)
            .map_err(|error| format!("{name}: {error}"))?;
        self.fill(object, &flat, table)
            .map_err(|error| format!("{name}: {error}"))?;
        Ok(true)
    }

    fn flatten<'s>(
        &'s self,
        package: &Package,
        name: &str,
        inside: [u32; 2],
        flat: &mut Flat<'s>,
    ) -> Result<(), Failure> {
        let fields = self
            .packages
            .get(package)
            .and_then(|structs| structs.get(name));
        let fields = fields.ok_or_else(|| format!("no Go struct {name}"))?;
        let message = self.messages.get(&format!("{}.{name}", package.proto));
        let message: &Message = message.ok_or_else(|| format!("no message {name}"))?;
        let tagged: Vec<u32> = fields.iter().filter_map(|field| field.number).collect();
        if let Some(number) = message.keys().find(|number| !tagged.contains(number)) {
            return Err(
                format!("{name}: field {number} of the message is not in the struct").into(),
            );
        }
        for field in fields {
            let Some(number) = field.number else { continue };
            let Some(on_wire) = message.get(&number) else {
                return Err(
                    format!("{name}: field {number} of the struct is not in the message").into(),
                );
            };
            if field.json_name.is_empty() {
                let deeper = match inside {
                    [0, 0] => [number, 0],
                    [outer, 0] => [outer, number],
                    _ => return Err(format!("{name}: embedded more than twice").into()),
                };
                self.flatten(package, &field.type_name, deeper, flat)?;
            } else {
                flat.insert(&field.json_name, (field, on_wire, inside));
            }
        }
        Ok(())
    }

    fn fill(
        &self,
        object: &mut ObjectType,
        flat: &Flat<'_>,
        table: &TypeTable,
    ) -> Result<(), Failure> {
        for field in object.fields.list_mut() {
            match flat.get(field.name.as_str()) {
                Some((go, on_wire, inside)) => {
                    field.wire = Some(self.wire(field, go, on_wire, *inside, table)?);
                }
                // The envelope carries these two.
                None if ["apiVersion", "kind"].contains(&field.name.as_str()) => {}
                None => return Err(format!("no protobuf number for {}", field.name).into()),
            }
        }
        if let Some(name) = flat.keys().find(|name| object.field(name).is_none()) {
            return Err(format!("{name} is in the struct but not in OpenAPI").into());
        }
        Ok(())
    }

    fn wire(
        &self,
        field: &Field,
        go: &GoField,
        on_wire: &ProtoField,
        embedded_in: [u32; 2],
        table: &TypeTable,
    ) -> Result<WireField, Failure> {
        let mut encoding = on_wire.encoding();
        let value_type = if on_wire.map {
            table[field.type_id]
                .as_object()
                .and_then(|map| map.additional)
        } else if on_wire.repeated {
            table[field.type_id].as_list().map(|list| list.item)
        } else {
            Some(field.type_id)
        };
        let value_type =
            value_type.ok_or_else(|| format!("{}: list or map expected", field.name))?;
        if encoding == WireEncoding::Message && matches!(table[value_type].shape, Shape::List(_)) {
            encoding = WireEncoding::ListMessage;
        }
        let pointer = go.is_pointer();
        let is_struct =
            !pointer && !on_wire.map && !on_wire.repeated && encoding == WireEncoding::Message;
        Ok(WireField {
            number: go.number.unwrap_or_default(),
            embedded_in,
            encoding,
            pointer,
            omit_empty: (go.omit_empty && !is_struct) || go.omit_zero,
        })
    }
}
