//! The protobuf wire format, reading.

/// One field of a message as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'b> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'b [u8]),
    Fixed32([u8; 4]),
}

/// Iterates over the fields of a message.
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub(super) fn new(message: &'b [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value, or what is wrong with the bytes.
    pub(super) fn next(&mut self) -> Option<Result<(u32, Wire<'b>), &'static str>> {
        (!self.rest.is_empty()).then(|| self.read())
    }

    fn read(&mut self) -> Result<(u32, Wire<'b>), &'static str> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| "the field number is too large")?;
        if number == 0 {
            return Err("the field number is 0");
        }
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.array()?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(
                    self.take(usize::try_from(length).map_err(|_| "the length is too large")?)?,
                )
            }
            5 => Wire::Fixed32(self.array()?),
            _ => return Err("unknown wire type"),
        };
        Ok((number, value))
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self
                .rest
                .split_first()
                .ok_or("unexpected end of the bytes")?;
            self.rest = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("an integer is longer than ten bytes")
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], &'static str> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or("unexpected end of the bytes")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or("unexpected end of the bytes")?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// The integers of a packed list.
pub(super) fn packed_varints(bytes: &[u8]) -> Result<Vec<u64>, &'static str> {
    let mut reader = Fields::new(bytes);
    let mut values = Vec::new();
    while !reader.rest.is_empty() {
        values.push(reader.varint()?);
    }
    Ok(values)
}
